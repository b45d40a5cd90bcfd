import type { Migration, SchemaDrift } from "@kiln/core/ports"
import type { Session } from "./Session.ts"

const definition =
  /CREATE (?:OR REPLACE )?FUNCTION "kiln"\.(\w+)\((?:(?!\bAS\s+[$'])[\s\S])*AS\s+(?:\$\$[\s\S]*?\$\$|'[^']*');/g

const prefix = "function "

/**
 * Returns the names of the functions by which a schema differs, if it differs by the text of functions alone; otherwise none. The
 * tables then hold the same as those of this version, so its functions can replace the others.
 */
export const changedFunctions = (differences: ReadonlyArray<SchemaDrift>): ReadonlyArray<string> =>
  differences.every(({ object, problem }) => problem === "changed" && object.startsWith(prefix))
    ? differences.map(({ object }) => object.slice(prefix.length))
    : []

/** Gives functions the text that migrations define, also if they have other parameters now. */
export const replaceFunctions = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
  names: ReadonlyArray<string>,
): Promise<void> => {
  const texts = new Map(
    migrations.flatMap(({ sql }) => [...sql.matchAll(definition)].map(([text, name]) => [name, text] as const)),
  )
  // Nothing depends on a function, except a trigger on its function.
  const others = await session.execute<{ signature: string }>(
    `SELECT oid::regprocedure::text AS signature FROM pg_proc
     WHERE pronamespace = to_regnamespace($1) AND proname = ANY ($2) AND prorettype <> 'trigger'::regtype`,
    [schema, names],
  )
  for (const { signature } of others) await session.execute(`DROP FUNCTION ${signature}`)
  for (const name of names)
    await session.execute((texts.get(name) ?? "").replace(/^CREATE (OR REPLACE )?/, "CREATE OR REPLACE "))
}
