export interface Snippet {
  /** The Markdown file, from the root of the repository. */
  readonly file: string
  /** The line of its first line of code, from 1. */
  readonly line: number
  readonly code: string
  /** False for a fence with `no-run`: such a snippet is only type-checked. */
  readonly runs: boolean
  /** What it must print: the block after it, if that one is a `text output`. */
  readonly output: string | undefined
}

interface Fence {
  readonly info: string
  readonly line: number
  readonly body: string
}

/** Every `ts` snippet of a Markdown text. Throws at a fence that would slip through the check. */
export const extractSnippets = (file: string, text: string): Array<Snippet> => {
  const fences = readFences(file, text)
  return fences.flatMap(({ info, line, body }, index): Array<Snippet> => {
    const [language = "", ...words] = info.split(/\s+/)
    if (/^(typescript|javascript|jsx?|tsx|mts|mjs)$/i.test(language)) {
      throw new Error(`${file}:${line}: write \`ts\`, not \`${language}\`: only \`ts\` snippets are checked`)
    }
    if (language !== "ts") return []
    const unknown = words.find((word) => word !== "no-run")
    if (unknown !== undefined) throw new Error(`${file}:${line}: \`${unknown}\` means nothing here; \`no-run\` does`)
    const next = fences[index + 1]
    const output = next?.info === "text output" ? next.body : undefined
    return [{ file, line: line + 1, code: body, runs: words.length === 0, output }]
  })
}

const readFences = (file: string, text: string): Array<Fence> => {
  const fences: Array<Fence> = []
  let open:
    | { readonly indent: string; readonly marks: string; readonly info: string; readonly line: number }
    | undefined
  let body: Array<string> = []
  for (const [index, content] of text.split("\n").entries()) {
    if (open === undefined) {
      const [, indent, marks, info] = /^(\s*)(```+|~~~+)\s*(.*?)\s*$/.exec(content) ?? []
      if (indent === undefined || marks === undefined || info === undefined) continue
      open = { indent, marks, info, line: index + 1 }
      body = []
    } else if (content.trim() === open.marks) {
      fences.push({ info: open.info, line: open.line, body: body.join("\n") })
      open = undefined
    } else {
      body.push(content.startsWith(open.indent) ? content.slice(open.indent.length) : content)
    }
  }
  if (open !== undefined) throw new Error(`${file}:${open.line}: a fence that never ends`)
  return fences
}
