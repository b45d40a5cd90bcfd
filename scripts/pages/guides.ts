import { readdirSync, readFileSync } from "node:fs"
import { basename, join, posix } from "node:path"
import { Marked, type Tokens } from "marked"
import { drawDiagram } from "./diagrams.ts"

const docs = join(import.meta.dirname, "../../docs")

/** The documents that the page shows, by their paths below docs, in the order of its list. */
const first = ["guides/first-job.md", "guides/client.md", "guides/errors-and-retries.md"]
const last = ["configuration.md", "errors.md", "glossary.md"]

const paths = (): ReadonlyArray<string> => {
  const all = readdirSync(join(docs, "guides"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `guides/${name}`)
    .toSorted()
  return [...first, ...all.filter((path) => !first.includes(path)), ...last]
}

const nameOf = (path: string): string => basename(path, ".md")

const slugOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/<[^>]+>|&\w+;/g, "")
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-")

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

/** Returns where a link of a document leads on the page: to another document, or to a heading. `undefined` leads nowhere there. */
const linkOf = (href: string, from: string, shown: ReadonlyArray<string>): string | undefined => {
  if (/^https?:/.test(href)) return href
  const [path = "", heading] = href.split("#")
  const target = path === "" ? from : posix.join(posix.dirname(from), path)
  if (!shown.includes(target)) return undefined
  return `#/guides/${nameOf(target)}${heading === undefined ? "" : `/${heading}`}`
}

/** Renders the guides to HTML that needs no script and no style of its own. */
export const renderGuides = () => {
  const shown = paths()
  return shown.map((path) => {
    const name = nameOf(path)
    const headings: Array<{ readonly id: string; readonly text: string }> = []
    let title = name
    let diagrams = 0
    const marked = new Marked({ gfm: true })
    marked.use({
      renderer: {
        heading({ depth, tokens }: Tokens.Heading) {
          const html = this.parser.parseInline(tokens)
          const plain = html.replaceAll(/<[^>]+>/g, "")
          if (depth === 1) {
            title = plain
            return `<h1>${html}</h1>`
          }
          const id = slugOf(plain)
          if (depth === 2) headings.push({ id, text: plain })
          return `<h${depth} id="${name}/${id}">${html}</h${depth}>`
        },
        link({ href, tokens }: Tokens.Link) {
          const html = this.parser.parseInline(tokens)
          const target = linkOf(href, path, shown)
          return target === undefined ? html : `<a href="${escapeHtml(target)}">${html}</a>`
        },
        // The page loads nothing but itself.
        image: ({ text }: Tokens.Image) => `<i>${escapeHtml(text)}</i>`,
        // A disabled input has no label.
        checkbox: ({ checked }: Tokens.Checkbox) => (checked ? "☑ " : "☐ "),
        html: ({ text }: Tokens.HTML | Tokens.Tag) => {
          const [, alt] = /^<picture>[^]*\balt="([^"]*)"/.exec(text) ?? []
          return alt === undefined ? text : `<p><i>${alt}</i></p>`
        },
        code: ({ lang = "", text }: Tokens.Code) =>
          lang === "mermaid"
            ? drawDiagram(`${name}-diagram-${(diagrams += 1)}`, text)
            : `<pre tabindex="0"><code data-lang="${escapeHtml(lang.split(" ")[0] ?? "")}">${escapeHtml(text)}</code></pre>`,
        table(token: Tokens.Table) {
          const cells = (row: ReadonlyArray<Tokens.TableCell>, tag: "th" | "td"): string =>
            row
              .map((cell) => {
                const html = this.parser.parseInline(cell.tokens)
                // An empty heading says nothing to a screen reader.
                return tag === "th" && html !== "" ? `<th scope="col">${html}</th>` : `<td>${html}</td>`
              })
              .join("")
          const rows = token.rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("")
          return `<div class="scroll" tabindex="0"><table><thead><tr>${cells(token.header, "th")}</tr></thead><tbody>${rows}</tbody></table></div>`
        },
      },
    })
    const html = marked.parse(readFileSync(join(docs, path), "utf8"), { async: false })
    return { name, title, html, headings }
  })
}
