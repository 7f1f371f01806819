-- Recognizes the selected handwriting and puts the LaTeX on the clipboard.
--
-- The environment variable POSFORMER holds the command to run, if posformer is not on the PATH, and
-- POSFORMER_FORMAT the format to copy: latex (default), typst, mathml, ...

local isWindows = package.config:sub(1, 1) == "\\"

function initUi()
  app.registerUi({
    ["menu"] = "Copy selection as LaTeX",
    ["callback"] = "copyAsLatex",
    ["accelerator"] = "<Control><Alt>l",
  })
end

local function message(text)
  if app.openDialog then
    app.openDialog(text, { "OK" }, "")
  else
    app.msgbox(text, { [1] = "OK" })
  end
end

local function command(arguments)
  local program = os.getenv("POSFORMER") or "posformer"
  local format = os.getenv("POSFORMER_FORMAT") or "latex"
  return program .. " clip --format " .. format .. arguments
end

-- Numbers have a decimal comma in some languages.
local function number(value)
  return (string.format("%.3f", value):gsub(",", "."))
end

-- Writes strokes as a page of Xournal++ without compression.
local function writePage(strokes, path)
  local file = assert(io.open(path, "w"))
  file:write("<xournal><page><layer>\n")
  for _, stroke in ipairs(strokes) do
    local points = {}
    for index, x in ipairs(stroke["x"]) do
      points[index] = number(x) .. " " .. number(stroke["y"][index])
    end
    local tool = stroke["tool"] or "pen"
    file:write('<stroke tool="' .. tool .. '">' .. table.concat(points, " ") .. "</stroke>\n")
  end
  file:write("</layer></page></xournal>\n")
  file:close()
end

local function copyStrokes()
  local found, strokes = pcall(app.getStrokes, "selection")
  if not found or #strokes == 0 then
    message("Select some handwriting first.")
    return
  end
  local path = os.tmpname()
  writePage(strokes, path)
  local process = assert(io.popen(command(' "' .. path .. '"') .. " 2>&1"))
  local output = process:read("*a")
  local done = process:close()
  os.remove(path)
  if not done then
    message("The selection was not recognized.\n" .. output)
  end
end

-- Xournal++ before 1.2 does not show strokes to plugins, but it copies a selection as an image. It
-- must answer posformer's question for that image, and therefore not wait for posformer.
local function copyImage()
  app.uiAction({ ["action"] = "ACTION_COPY" })
  if isWindows then
    os.execute('start "" /b ' .. command(""))
  else
    os.execute(command("") .. " &")
  end
end

function copyAsLatex()
  if app.getStrokes then
    copyStrokes()
  else
    copyImage()
  end
end
