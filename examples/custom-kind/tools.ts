import type { Tools } from "./kind.ts"

/** Fakes for a model and a renderer. The summary is the beginning of the text; rendering the first page fails. */
export const makeTools = (say: (line: string) => void = console.log): Tools => {
  let pages = 0
  return {
    summarize: async (text, sentences) => {
      say("summarizing")
      return (text.match(/[^.!?]+[.!?]+\s*/g) ?? [text]).slice(0, sentences).join("").trim()
    },
    render: async (summary) => {
      pages += 1
      say(`rendering, time ${pages}`)
      if (pages === 1) throw new Error("the renderer is restarting")
      return `<p>${summary}</p>\n`
    },
  }
}
