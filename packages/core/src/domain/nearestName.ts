/** How many single characters apart two names are (Levenshtein). */
const distance = (left: string, right: string): number => {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (const [at, character] of [...left].entries()) {
    const next = [at + 1]
    for (const [index, other] of [...right].entries())
      next.push(
        Math.min((row[index] ?? 0) + (character === other ? 0 : 1), (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1),
      )
    row = next
  }
  return row.at(-1) ?? 0
}

/** The name most like a mistyped one. */
export const nearestName = (written: string, names: ReadonlyArray<string>): string | undefined =>
  names
    .map((name) => ({ name, apart: distance(written, name) }))
    .sort((left, right) => left.apart - right.apart)
    .at(0)?.name
