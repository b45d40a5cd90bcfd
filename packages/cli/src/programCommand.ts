/** Quotes a word for a POSIX shell if it needs that. */
const quoted = (word: string): string => (/^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/**
 * Returns how a person runs this program in a shell: through pnpm in a checkout, which has TypeScript sources, otherwise by its own
 * path. (`npx kiln` is no substitute: where kiln is not installed, it would run another package of that name.)
 */
export const programCommand = (
  program: string | undefined = process.argv[1],
  isCheckout: boolean = import.meta.url.endsWith(".ts"),
): string => (isCheckout || program === undefined ? "npx -y pnpm@12 kiln" : quoted(program))
