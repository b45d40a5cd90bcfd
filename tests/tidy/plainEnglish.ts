import { isAboutTidiness, type Finding, type TidyFile } from "./TidyFile.ts"

interface Pattern {
  readonly find: RegExp
  /** The advice in the finding. */
  readonly instead: string
}

/** Fails in a question: the sentence ends with a question mark. */
const notAsked = String.raw`(?![^.!;]*\?)`

const patterns: ReadonlyArray<Pattern> = [
  { find: /\b(whoever|whosoever|whosever|whomever|whatsoever)\b/gi, instead: "name the subject: a caller, a worker" },
  { find: new RegExp(String.raw`\bWho\b${notAsked}`, "g"), instead: "name the subject: a caller, a worker" },
  { find: new RegExp(String.raw`[;:] +who +[a-z]${notAsked}`, "g"), instead: "name the subject: a caller, a worker" },
  {
    find: new RegExp(
      String.raw`\bWhat +(is|are|was|were|has|had|does|did|can|cannot|could|may|must|will)\b${notAsked}`,
      "g",
    ),
    instead: "begin with a noun: the value, the rows",
  },
  { find: /\b(is|are|was|were|be) +none\b(?! or\b)/gi, instead: "say what is absent, or use `not`" },
  { find: /\b(what|which|that|who) +(is|are|was|were) +no(?= +(?!longer\b|more\b)\w)/gi, instead: "is not a …" },
  { find: /\bone's +own\b/gi, instead: "custom, your own" },
  { find: /\bfor +ever\b/gi, instead: "forever, indefinitely, permanently" },
  { find: /\bin +hand\b/gi, instead: "in progress, claimed" },
  { find: /\bAgain +(is|has|does|changes|gives)\b/g, instead: "calling it again, repeating the request" },
  { find: /\belse +than\b/gi, instead: "other than" },
  { find: /\b(goes|went|go) +on +with(?= +(what|it)\b)/gi, instead: "continues" },
  { find: /\bmade +up +where\b/gi, instead: "generated if" },
  {
    find: /\bwhat +(becomes|became|has +become|will +become) +of\b/gi,
    instead: "what happens to, the outcome of, the state of",
  },
  { find: /\band +answers +with\b/gi, instead: "and returns" },
  { find: /\bin +the +place +of\b/gi, instead: "instead of, replaces" },
  { find: /\b(every|each|a|the +plain|two|three) +doors?\b/gi, instead: "entry point" },
  { find: /\b(lest|anew|whence|thereof|thereupon)\b/gi, instead: "a word in current use" },
]

const isProse = ({ path }: TidyFile): boolean =>
  /\.(ts|mts|mjs|js|md|ya?ml)$/.test(path) && !path.endsWith("-lock.yaml")

/** Finds phrases that make a native reader stumble, in comments, strings and Markdown. */
export const plainEnglish = (files: ReadonlyArray<TidyFile>): Array<Finding> =>
  files
    .filter((file) => isProse(file) && !isAboutTidiness(file))
    .flatMap(({ path, text }) => {
      const prose = unwrapped(text)
      return patterns.flatMap(({ find, instead }) =>
        [...prose.matchAll(find)].map(({ index, 0: phrase }) => {
          const line = text.slice(0, index).split("\n").length
          return `${path}:${line}: "${phrase.replaceAll(/ +/g, " ")}": ${instead}`
        }),
      )
    })

/** A phrase may continue on the next line of a comment. Line ends and comment signs become blanks, so that offsets stay. */
const unwrapped = (text: string): string =>
  text.replaceAll(/\n[ \t]*(?:\*|\/\/)?[ \t]*/g, (lineEnd) => " ".repeat(lineEnd.length))
