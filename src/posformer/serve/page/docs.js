// A readable page for the OpenAPI document of the server.

const make = (name, text = "", ...children) => {
  const element = document.createElement(name);
  element.append(text, ...children);
  return element;
};

const { info, paths, components } = await (await fetch("api/openapi.json")).json();
const resolve = (schema) =>
  schema?.$ref ? components.schemas[schema.$ref.split("/").at(-1)] : schema ?? {};

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(typeOf).filter((type) => type !== "null").join(" or ");
  if (schema.type === "array") return `list of ${typeOf(schema.items ?? {})}`;
  return schema.type ?? "any";
}

function table(rows) {
  const body = make("tbody");
  for (const row of rows) body.append(make("tr", "", ...row.map((cell) => make("td", cell))));
  return make("table", "", body);
}

const fields = (schema) => Object.entries(resolve(schema).properties ?? {}).map(
  ([name, field]) => [name, typeOf(field), field.description ?? ""]);

const part = (title, rows) => (rows.length ? [make("h3", title), table(rows)] : []);

function operation(method, path, described) {
  const content = Object.values(described.requestBody?.content ?? {})[0];
  const answer = described.responses["200"].content["application/json"].schema;
  const errors = Object.entries(described.responses).filter(([status]) => status !== "200");
  return make("article", "",
    make("h2", "", make("b", method.toUpperCase()), ` ${path}`),
    make("p", described.description ?? ""),
    ...part("Query", (described.parameters ?? []).map(
      ({ name, schema, description }) => [name, typeOf(schema), description ?? ""])),
    ...part(`Body, ${Object.keys(described.requestBody?.content ?? {})[0]}`,
      content ? fields(content.schema) : []),
    ...part("Response", fields(answer)),
    ...part("Errors, with the reason in “error”", errors.map(
      ([status, { description }]) => [status, description])));
}

document.getElementById("about").textContent = `API, version ${info.version}`;
document.getElementById("operations").append(...Object.entries(paths).flatMap(
  ([path, methods]) => Object.entries(methods).map(
    ([method, described]) => operation(method, path, described))));
