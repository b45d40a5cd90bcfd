/** Asks again and again until there is an answer. */
export const until = async <A>(ask: () => A | undefined | Promise<A | undefined>, limitMs = 60_000): Promise<A> => {
  const givesUpAt = performance.now() + limitMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (performance.now() > givesUpAt) throw new Error(`nothing within ${limitMs} ms: ${ask.toString()}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
