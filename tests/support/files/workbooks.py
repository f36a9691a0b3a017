"""Workbooks of Excel and OpenDocument with the least that they need."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

Sheets = Mapping[str, Sequence[Sequence[object]]]
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"


def write_xlsx(path: Path, sheets: Sheets) -> Path:
    """Write a workbook of Excel: numbers and texts, None for an empty cell."""

    def cell(value: object) -> str:
        if value is None:
            return "<c/>"
        if isinstance(value, int | float):
            return f"<c><v>{value}</v></c>"
        return f'<c t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'

    numbered = list(enumerate(sheets.items(), 1))
    listed = "".join(f'<sheet name="{name}" sheetId="{at}" r:id="r{at}"/>' for at, (name, _) in numbered)
    links = "".join(
        f'<Relationship Id="r{at}" Type="{_RELATIONS}/worksheet" Target="worksheets/{at}.xml"/>' for at, _ in numbered
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        root = f'<Relationship Id="r1" Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/>'
        file.writestr("_rels/.rels", f'<Relationships xmlns="{_PACKAGE}">{root}</Relationships>')
        file.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{_PACKAGE}">{links}</Relationships>')
        file.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}"><sheets>{listed}</sheets></workbook>'
        )
        for at, (_, rows) in numbered:
            body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
            file.writestr(
                f"xl/worksheets/{at}.xml", f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData></worksheet>'
            )
    return path


def write_ods(path: Path, sheets: Sheets) -> Path:
    """Write a workbook of OpenDocument, as `write_xlsx` does."""

    def cell(value: object) -> str:
        if value is None:
            return "<table:table-cell/>"
        kind = f'float" office:value="{value}' if isinstance(value, int | float) else "string"
        return f'<table:table-cell office:value-type="{kind}"><text:p>{escape(str(value))}</text:p></table:table-cell>'

    tables = "".join(
        f'<table:table table:name="{name}">'
        + "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    spaces = " ".join(f'xmlns:{one}="{_OPEN}:{one}:1.0"' for one in ("office", "table", "text"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet", zipfile.ZIP_STORED)
        file.writestr(
            "META-INF/manifest.xml",
            '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>',
        )
        file.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:spreadsheet>{tables}</office:spreadsheet>"
            "</office:body></office:document-content>",
        )
    return path
