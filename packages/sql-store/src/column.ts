import type { ColumnType } from "kysely"

/** A JSON text. */
export type JsonText = string

/** A boolean as a row has it: `true` and `false` on Postgres, 1 and 0 on SQLite. */
export type Flag = boolean | 0 | 1

declare const valueType: unique symbol
declare const isFlag: unique symbol

/** Marks the columns whose values are booleans. */
export interface AnyFlag {
  readonly [isFlag]: true
}

/** A column of both databases; `optional` means that an INSERT may leave it out. */
export interface Column<Value, Optional extends boolean = boolean> {
  readonly type: "integer" | "real" | "text" | "bytes" | "flag"
  readonly nullable: boolean
  readonly optional: Optional
  readonly [valueType]?: Value
}

const required = <Value>(type: Column<Value>["type"]): Column<Value, false> => ({
  type,
  nullable: false,
  optional: false,
})

export const integer = <Value extends number = number>() => required<Value>("integer")
export const real = () => required<number>("real")
export const text = <Value extends string = string>() => required<Value>("text")
export const json = () => required<JsonText>("text")
export const bytes = () => required<Uint8Array>("bytes")
export const flag = () => required<AnyFlag>("flag")

export const nullable = <Value>(column: Column<Value, false>): Column<Value | null, true> => ({
  ...column,
  nullable: true,
  optional: true,
})

/** The database or the schema provides a value if an INSERT leaves the column out. */
export const generated = <Value>(column: Column<Value>): Column<Value, true> => ({ ...column, optional: true })

/** Tables and their columns, as a value. */
export type Declared = Readonly<Record<string, Readonly<Record<string, Column<unknown>>>>>

export type ColumnOf<D extends Declared, T extends keyof D> = keyof D[T] & string

/** The value of a column; `F` is the type of booleans. */
export type ValueOf<C, F> = C extends Column<infer Value> ? (Value extends AnyFlag ? F : Value) : never

/** The type that Kysely reads, inserts and updates. A flag that is read as `F` is written as a boolean, except where `F` is narrower. */
type Stored<C, F> =
  C extends Column<infer Value, infer Optional>
    ? Value extends AnyFlag
      ? ColumnType<F, Written<F> | Left<Optional>, Written<F>>
      : ColumnType<Value, Value | Left<Optional>, Value>
    : never

type Written<F> = true extends F ? Extract<F, boolean> : F
type Left<Optional> = true extends Optional ? undefined : never

/** The schema as Kysely sees it. */
export type TablesOf<D extends Declared, F> = {
  readonly [T in keyof D & string]: { readonly [C in ColumnOf<D, T>]: Stored<D[T][C], F> }
}

type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name

/** Values of columns under their names in TypeScript: of `lane_id`, it is `{ readonly laneId: number }`. */
export type ValuesOf<D extends Declared, T extends keyof D, C extends ColumnOf<D, T>, F> = {
  readonly [Name in C as Camel<Name>]: ValueOf<D[T][Name], F>
}

/** The same values under the names of the columns, as a table has them. */
export type RowsOf<D extends Declared, T extends keyof D, C extends ColumnOf<D, T>, F> = {
  readonly [Name in C]: ValueOf<D[T][Name], F>
}

type Selection<T extends string, C extends string> = `${T}.${C} as ${Camel<C>}`

/** Returns the name of a column in TypeScript. */
export const camel = (name: string): string => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())

/** Returns a function that makes select lists: of `("jobs", "lane_id")`, `["jobs.lane_id as laneId"]`. */
export const selectOf =
  <D extends Declared>() =>
  <T extends keyof D & string, const C extends ReadonlyArray<ColumnOf<D, T>>>(
    table: T,
    ...names: C
  ): { readonly [I in keyof C]: Selection<T, C[I]> } =>
    names.map((name) => `${table}.${name} as ${camel(name)}`) as { readonly [I in keyof C]: Selection<T, C[I]> }

/** Picks the parameters of columns for an INSERT or UPDATE, under the names of the columns. */
export const assign = <Given extends object, const C extends ReadonlyArray<string>>(
  given: Given,
  ...names: C
): { readonly [Name in C[number]]: Camel<Name> extends keyof Given ? Given[Camel<Name>] : never } =>
  Object.fromEntries(names.map((name) => [name, Reflect.get(given, camel(name)) as unknown])) as {
    readonly [Name in C[number]]: Camel<Name> extends keyof Given ? Given[Camel<Name>] : never
  }
