import { accessSync, constants } from "node:fs"
import { delimiter, join } from "node:path"

const isOnPath = (path: string): boolean =>
  path.split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, "kiln"), constants.X_OK)
      return directory !== ""
    } catch {
      return false
    }
  })

/** Quotes a word for a POSIX shell if it needs that. */
export const quoted = (word: string): string =>
  /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** The process that runs this program. */
interface OwnProcess {
  /** True in a checkout, which has TypeScript sources. */
  readonly isCheckout: boolean
  /** Path of the program's file. */
  readonly program: string | undefined
  /** The variable `PATH`. */
  readonly path: string
}

const own = (): OwnProcess => ({
  isCheckout: import.meta.url.endsWith(".ts"),
  program: process.argv[1],
  path: process.env["PATH"] ?? "",
})

/**
 * Returns how a person runs this program in a shell: through pnpm in a checkout, as `kiln` if that is on the path, otherwise by its
 * own path. (`npx kiln` is no substitute: where kiln is not installed, it would run another package of that name.)
 */
export const programCommand = ({ isCheckout, path, program }: OwnProcess = own()): string => {
  if (isCheckout || program === undefined) return "npx -y pnpm@12 kiln"
  return isOnPath(path) ? "kiln" : quoted(program)
}
