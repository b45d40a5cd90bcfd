import type { Json } from "../domain/givenValues.ts"

// The compiler finds in a type what `jsonProblem` finds in a value, and says it in the same words.

/** A message of the compiler: no value has this type. */
export interface NotJson<Problem extends string> {
  readonly "~notJson": Problem
}

/** How many levels of a type are searched. Deeper ones are left to the check of the value. */
type Depth = 0 | 1 | 2 | 3 | 4 | 5
type Less = readonly [0, 0, 1, 2, 3, 4]

/** A type that was searched on the way here. Recursive types end there. */
interface Seen<in out T> {
  readonly seen: (type: T) => T
}

type Known = null | undefined | void | string | number | boolean

/** Why JSON cannot represent a type, and the remedy; `never` for a type whose fields must be searched. */
type RemedyFor<T> = T extends bigint
  ? "bigint is not JSON; use text (String()), in schemas too"
  : T extends symbol
    ? "symbol is not JSON; leave it out"
    : T extends (...given: never) => unknown
      ? "function is not JSON; use an object of plain fields"
      : T extends Date
        ? "Date is not JSON; use text (toISOString()), in schemas too"
        : T extends ReadonlyMap<unknown, unknown>
          ? "Map is not JSON; use an object (Object.fromEntries()), in schemas too"
          : T extends ReadonlySet<unknown>
            ? "Set is not JSON; use a list (Array.from()), in schemas too"
            : T extends PromiseLike<unknown>
              ? "Promise is not JSON; await it"
              : T extends ArrayBufferView | ArrayBuffer
                ? "bytes are not JSON; use text (base64), or a file written after the steps"
                : T extends { readonly toJSON: (...given: never) => unknown }
                  ? "class instance is not JSON; use its toJSON()"
                  : never

/** What is not JSON in a type, with the path: `request.user.born: Date is not JSON; use text (toISOString()), in schemas too`. `never` if all is. */
export type JsonProblem<T, Path extends string, Left extends Depth = 5, Above = never> = 0 extends 1 & T
  ? never
  : unknown extends T
    ? never
    : [T] extends [Json | undefined | void]
      ? never
      : ProblemIn<T, Path, Left, Above>

type ProblemIn<T, Path extends string, Left extends Depth, Above> = T extends Known
  ? never
  : [RemedyFor<T>] extends [never]
    ? Left extends 0
      ? never
      : Seen<T> extends Above
        ? never
        : T extends ReadonlyArray<infer Item>
          ? ProblemOfItem<Item, `${Path}[]`, Less[Left], Above | Seen<T>>
          : T extends object
            ? { [Key in keyof T]-?: JsonProblem<T[Key], PathOf<Path, Key>, Less[Left], Above | Seen<T>> }[keyof T]
            : never
    : `${Path}: ${RemedyFor<T>}`

type ProblemOfItem<Item, Path extends string, Left extends Depth, Above> = unknown extends Item
  ? never
  : undefined extends Item
    ? `${Path}: undefined is not JSON in a list; use null`
    : JsonProblem<Item, Path, Left, Above>

type PathOf<Path extends string, Key> = Key extends string | number
  ? string extends Key
    ? `${Path}[…]`
    : number extends Key
      ? `${Path}[…]`
      : `${Path}.${Key}`
  : Path

/** `unknown` for a type whose values JSON can represent; otherwise a type that says what it cannot. */
export type JsonCheck<T, Path extends string> = [JsonProblem<T, Path>] extends [never]
  ? unknown
  : NotJson<JsonProblem<T, Path>>

/**
 * A value that a step can keep, for code that wraps `step`:
 *
 * ```ts
 * const timed = <T>(step: Attempt["step"], name: string, work: () => Promise<Storable<T>>) => step<T>(name, work)
 * ```
 */
export type Storable<T> = JsonCheck<T, "value"> & T
