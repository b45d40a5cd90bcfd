import { describe, expect, it } from "vitest"
import { errorCatalogue } from "@kiln/client/api"
import openApi from "../docs/openapi.json" with { type: "json" }
import { readErrorRemedies } from "../scripts/pages/errorRemedies.ts"
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
    // Code that a guide quotes is escaped.
    expect(html).not.toMatch(/<(?:script|style|img|iframe|link)\b|<[^>]+\s(?:style|on\w+)=/)
  })
})
