/**
 * Fields are `snake_case` on the wire and `camelCase` inside. A rule converts one into the other, so few fields need a mapping.
 * The rule applies to the top-level fields of requests and outputs; nested values are data.
 */

/** Wire names that do not follow the rule, by inner name. */
export type GivenNames = Readonly<Record<string, string>>

/** `uploadId` → `upload_id`. */
export const toSnakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
/** `upload_id` → `uploadId`. */
export const toCamelCase = (name: string): string =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
/** `text_summary` → `TextSummary`; every character other than a letter or digit separates two words. */
export const toPascalCase = (name: string): string =>
  name.replace(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9]?)/g, (_, letter: string) => letter.toUpperCase())

/** Returns the name of a field on the wire. */
export const wireName = (name: string, names: GivenNames = {}): string =>
  Object.hasOwn(names, name) ? (names[name] ?? name) : toSnakeCase(name)

/** `uploadId` → `upload_id`, as a type. */
export type SnakeCase<Name extends string, Done extends string = ""> = Name extends `${infer First}${infer Rest}`
  ? SnakeCase<Rest, `${Done}${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}`>
  : Done
/** `text_summary` → `TextSummary`, as a type. */
export type PascalCase<
  Name extends string,
  Done extends string = "",
  Begins extends boolean = true,
> = string extends Name
  ? string
  : Name extends `${infer First}${infer Rest}`
    ? Uppercase<First> extends Lowercase<First>
      ? First extends Digit
        ? PascalCase<Rest, `${Done}${First}`, false>
        : PascalCase<Rest, Done>
      : PascalCase<Rest, `${Done}${Begins extends true ? Uppercase<First> : First}`, false>
    : Done
type Digit = "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9"

/** The wire name of a field, as a type. */
export type WireName<Field, Names> = Field extends keyof Names
  ? Names[Field]
  : Field extends string
    ? SnakeCase<Field>
    : never
