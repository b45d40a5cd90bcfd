import type { Tools } from "./kind.ts"

/** Stand-ins for a model and a renderer. The summary is how the text begins; the first page is not rendered. */
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
