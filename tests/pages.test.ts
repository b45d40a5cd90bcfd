import { describe, expect, it } from "vitest"
import { errorCatalogue } from "@kiln/client/api"
import openApi from "../docs/openapi.json" with { type: "json" }
import { readErrorRemedies } from "../scripts/pages/errorRemedies.ts"
import { drawDiagram } from "../scripts/pages/diagrams.ts"
import { renderGuides } from "../scripts/pages/guides.ts"

describe("docs/errors.md", () => {
  it("says for every code what to do, and for no other", () => {
    const codes = [
      ...new Set([...Object.keys(errorCatalogue), ...openApi.components.schemas.JobErrorCode.enum]),
    ].toSorted()
    expect(Object.keys(readErrorRemedies()).toSorted()).toEqual(codes)
  })
})

describe("the guides of the documentation page", () => {
  const guides = renderGuides()
  const anchors = new Set(
    guides.flatMap(({ html, name }) => [
      `#/guides/${name}`,
      ...[...html.matchAll(/<h\d id="([^"]+)"/g)].map(([, id = ""]) => `#/guides/${id}`),
    ]),
  )

  it.each(guides)("$name: its links lead somewhere, and it loads and runs nothing", ({ html }) => {
    const links = [...html.matchAll(/href="([^"]+)"/g)].map(([, href = ""]) => href)
    expect(links.filter((href) => !href.startsWith("https://") && !anchors.has(href))).toEqual([])
    // Diagrams are drawn when the page is compiled.
    expect(html).not.toContain('data-lang="mermaid"')
    // Code that a guide quotes is escaped.
    expect(html).not.toMatch(/<(?:script|style|img|iframe|link)\b|<[^>]+\s(?:style|on\w+)=/)
  })
})

describe("the diagrams of the guides", () => {
  const { html = "" } = renderGuides().find(({ name }) => name === "self-hosting") ?? {}

  it("say in words what they show, and draw each node and arrow", () => {
    expect(html).toContain('aria-label="callers (HTTPS) to nginx. nginx to API 8787. nginx to API 8788.')
    const [svg = ""] = /<svg class="diagram".*?<\/svg>/.exec(html) ?? []
    for (const label of ["callers", "nginx", "API 8787", "API 8788", "Postgres", "worker", "S3 bucket"])
      expect(svg.split(`>${label}</text>`)).toHaveLength(2)
    expect(svg.match(/class="edge"/g)).toHaveLength(9)
  })

  it("keep nodes apart", () => {
    const boxes = [...html.matchAll(/<rect class="node" x="([\d.]+)" y="([\d.]+)" width="(\d+)" height="(\d+)"/g)].map(
      ([, ...numbers]) => numbers.map(Number) as [number, number, number, number],
    )
    expect(boxes).toHaveLength(7)
    for (const [n, [x, y, width, height]] of boxes.entries())
      for (const [otherX, otherY, otherWidth, otherHeight] of boxes.slice(n + 1))
        expect(x + width < otherX || otherX + otherWidth < x || y + height < otherY || otherY + otherHeight < y).toBe(
          true,
        )
  })

  it("fail the build if they cannot be drawn", () => {
    for (const text of ["pie\n  a: 1", "flowchart LR\n  subgraph x", "sequenceDiagram\n  loop forever"])
      expect(() => drawDiagram("x", text)).toThrow("the pages cannot draw this line")
  })
})
