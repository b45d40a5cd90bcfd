import type { AsyncProvider } from "@kiln/core"

const otherPerson: Readonly<Record<string, string>> = {
  i: "you",
  me: "you",
  my: "your",
  am: "are",
  you: "I",
  your: "my",
}
const turned = (words: string): string => words.replaceAll(/[a-z']+/g, (word) => otherPerson[word] ?? word)

/** Patterns in order of preference. The first match replies with its captured text in the second person. */
const rules: ReadonlyArray<readonly [RegExp, (caught: string) => string]> = [
  [/^\W*$/, () => "I did not hear you say anything."],
  [/\bi (?:think|believe|feel) (?:that )?(.+)/, (rest) => `What makes you think that ${rest}?`],
  [/\bi (?:want|would like|need) (.+)/, (rest) => `What would it mean to you to have ${rest}?`],
  [/\bi am (.+)/, (rest) => `How long have you been ${rest}?`],
  [/^(?:what|when|where|who|why|how)\b(.*)/, () => "Why do you ask?"],
  [/(.+)/, (rest) => `You say that ${rest}. Please go on.`],
]

/**
 * Replies like Weizenbaum's ELIZA from 1966, by rephrasing the input. It uses no model, understands nothing and ignores the
 * instructions. A token is a word.
 */
export const reflectiveReply: AsyncProvider<"reply"> = async ({ maxOutputTokens, text }) => {
  const said = text
    .toLowerCase()
    .replaceAll(/[.?!]+/g, "")
    .trim()
  const answers = rules.flatMap(([pattern, answer]) => {
    const found = pattern.exec(said)
    return found === null ? [] : [answer(turned(found[1] ?? ""))]
  })
  const words = (answers[0] ?? "Please go on.").split(/\s+/)
  const kept = words.slice(0, maxOutputTokens)
  return { text: kept.join(" "), outputTokens: kept.length, truncated: kept.length < words.length }
}
