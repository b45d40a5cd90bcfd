/** Returns the Levenshtein distance of two names. */
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

const nearest = (written: string, names: ReadonlyArray<string>) =>
  names
    .map((name) => ({ name, apart: distance(written.toLowerCase(), name.toLowerCase()) }))
    .sort((left, right) => left.apart - right.apart)
    .at(0)

/** Returns the name most like a mistyped one. */
export const nearestName = (written: string, names: ReadonlyArray<string>): string | undefined =>
  nearest(written, names)?.name

/** Returns the name that a mistyped one probably means; `undefined` if more than half of its characters differ. */
export const likelyName = (written: string, names: ReadonlyArray<string>): string | undefined => {
  const found = nearest(written, names)
  if (found === undefined) return undefined
  const longest = Math.max(written.length, found.name.length)
  return found.apart <= Math.max(2, longest / 2) ? found.name : undefined
}
