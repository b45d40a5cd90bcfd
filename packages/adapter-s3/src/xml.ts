// Answers of S3 are flat and small, and kiln reads a few named elements: no parser needed.

const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" }

const decode = (text: string): string =>
  text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return entities[name] ?? whole
    return String.fromCodePoint(Number.parseInt(decimal ?? hex ?? "", decimal === undefined ? 16 : 10))
  })

/** Returns the name of the document's root element, without a namespace prefix; `undefined` if the text is no complete document. */
export const rootOf = (xml: string): string | undefined => {
  const text = xml
    .replaceAll(/<!--[\s\S]*?-->|<\?[\s\S]*?\?>/g, "")
    .replace("\u{feff}", "")
    .trim()
  const [, name] = /^<([\w.:-]+)/.exec(text) ?? []
  if (name === undefined) return undefined
  const isComplete = text.endsWith(`</${name}>`) || /^<[^<>]*\/>$/.test(text)
  return isComplete ? name.slice(name.indexOf(":") + 1) : undefined
}

/** Returns the content of each element with this name, as it is written. */
export const elementsOf = (xml: string, name: string): ReadonlyArray<string> =>
  [...xml.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}>`, "g"))].map(([, content = ""]) => content)

/** Returns the text of the first element with this name; `undefined` if it does not occur. */
export const textOf = (xml: string, name: string): string | undefined => {
  const [content] = elementsOf(xml, name)
  return content === undefined ? undefined : decode(content)
}

/** Escapes text for an element. */
export const escaped = (text: string): string =>
  text.replace(/[<>&"]/g, (sign) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" })[sign] ?? sign)
