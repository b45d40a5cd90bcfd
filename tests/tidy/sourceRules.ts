import { findLines, isAboutTidiness, type Finding, type TidyFile } from "./TidyFile.ts"

const isShipped = ({ path }: TidyFile): boolean => /^packages\/(?!service-lab\/)[^/]+\/src\//.test(path)
const isCommandLine = ({ path }: TidyFile): boolean => path.startsWith("packages/cli/src/")
/** Compiled by scripts/pages.ts from sources that the rules do see. */
const compiledPage = /^packages\/(?:dashboard\/src\/page\/assets|http\/src\/pages\/compiled\/\w+)[.]ts$/
const isTypeScript = ({ path }: TidyFile): boolean => path.endsWith(".ts") && !compiledPage.test(path)
const isTest = ({ path }: TidyFile): boolean =>
  /\.(test|system|proof|long)\.ts$/.test(path) || path.startsWith("packages/conformance/src/")

const MOST_LINES = 400

/** A file anyone can read in one go; the exceptions say why. */
export const shortFiles = (
  files: ReadonlyArray<TidyFile>,
  explained: Readonly<Record<string, string>>,
): Array<Finding> => {
  const long = files
    .filter((file) => isShipped(file))
    .map(({ path, text }) => ({ path, lines: text.trimEnd().split("\n").length }))
    .filter(({ lines }) => lines > MOST_LINES)
  const unexplained = long.filter(({ path }) => !explained[path])
  const stale = Object.keys(explained).filter((path) => !long.some((file) => file.path === path))
  return [
    ...unexplained.map(({ path, lines }) => `${path}: ${lines} lines, more than ${MOST_LINES} without a reason`),
    ...stale.map((path) => `${path}: explained as long, but is not`),
  ]
}

/** Time comes from `Clock`, randomness from a port or Effect's `Random`, messages go to the log: else no test can steer them. */
export const noAmbientEffects = (files: ReadonlyArray<TidyFile>): Array<Finding> =>
  files
    .filter((file) => isShipped(file) && isTypeScript(file) && !isCommandLine(file))
    .map((file) => ({ ...file, text: withoutComments(file.text) }))
    .flatMap((file) => [
      ...findLines(file, /\bDate\.now\b/, "Date.now: use Effect's Clock"),
      ...findLines(file, /\bnew Date\(\s*\)/, "new Date(): use Effect's Clock"),
      ...findLines(file, /\bMath\.random\b/, "Math.random: use a port or Effect's Random"),
      ...findLines(file, /\bconsole\.\w/, "console: use Effect's log"),
    ])

/** Comments become blanks, so that line numbers stay. Quotes are not parsed: a comment sign in a string hides its rest. */
const withoutComments = (text: string): string =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, " ")).replaceAll(/(^|\s)\/\/.*/g, "$1")

/** Ways around the compiler. */
export const noTypeHoles = (files: ReadonlyArray<TidyFile>): Array<Finding> =>
  files
    .filter((file) => isTypeScript(file) && file.path.startsWith("packages/"))
    .flatMap((file) => [
      ...findLines(code(file), /\bas unknown as\b/, "as unknown as: say what it is, or decode it"),
      ...findLines(file, /@ts-(ignore|nocheck|expect-error)(?!.*\w{4})/, "a silenced compiler without a reason"),
    ])

/** Without comments and without the prose in strings. */
const code = ({ path, text }: TidyFile): TidyFile => ({
  path,
  text: withoutComments(text).replaceAll(/"[^"\n]*"/g, `""`),
})

/**
 * `.only` hides every other test. A skipped test needs a reason: in a comment on its line or directly above, or as the last
 * argument of `skip`, as text or a constant (`noPostgres`).
 */
export const noSilentSkips = (files: ReadonlyArray<TidyFile>): Array<Finding> =>
  files
    .filter((file) => isTest(file) && !isAboutTidiness(file))
    .flatMap(({ path, text }) => {
      const lines = text.split("\n")
      return lines.flatMap((line, index): Array<Finding> => {
        const at = `${path}:${index + 1}`
        if (/\b(it|test|describe|suite)\b[.\w]*\.only\b/.test(line)) return [`${at}: .only`]
        if (!/\b(it|test|describe|suite)\b[.\w]*\.(skip|skipIf|runIf|todo)\b|\bskip\(/.test(line)) return []
        const commented = /\/\/.{10,}/.test(line) || /^\s*\/\/.{10,}/.test(lines[index - 1] ?? "")
        const argued = /\bskip\((.*,\s*)?(["'`].{10,}["'`]|no[A-Z]\w+|NO_\w+)\s*\)/.test(line)
        return commented || argued ? [] : [`${at}: skipped without a reason`]
      })
    })
