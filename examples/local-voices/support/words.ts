const wordsOf = (text: string): Array<string> => text.toLowerCase().match(/[a-z']+/g) ?? []

/**
 * Returns the share of spoken words that were recognized in order: the longest common subsequence divided by the words of the
 * longer text, so that invented words lower the result.
 */
export const understood = (said: string, heard: string): number => {
  const [a, b] = [wordsOf(said), wordsOf(heard)]
  let row = Array.from({ length: b.length + 1 }, () => 0)
  for (const word of a) {
    const above = row
    row = [0]
    for (const [j, other] of b.entries())
      row.push(word === other ? (above[j] ?? 0) + 1 : Math.max(above[j + 1] ?? 0, row[j] ?? 0))
  }
  return (row.at(-1) ?? 0) / Math.max(a.length, b.length, 1)
}
