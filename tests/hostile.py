"""Small files that take much work."""


def nested_pdf(levels: int = 12) -> bytes:
    """A PDF of forms that draw the next one ten times each: 10 ** levels squares."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
    page += b"/Resources<</XObject<</F 5 0 R>>>>>>"
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page]
    objects.append(_stream(b"", b"/F Do " * 10))
    for number in range(levels):
        last = number == levels - 1
        inner = b"" if last else b"/Resources<</XObject<</F %d 0 R>>>>" % (6 + number)
        kind = b"/Type/XObject/Subtype/Form/BBox[0 0 200 200]"
        objects.append(_stream(kind + inner, b"0 0 9 9 re f" if last else b"/F Do " * 10))
    content, offsets = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (count, len(content))
    return content + b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table) + end


def _stream(entries: bytes, content: bytes) -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(content), content)
