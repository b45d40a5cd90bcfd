import type { ClientBase } from "pg"

/** A part of a schema, with the text that defines it. */
export interface SchemaPart {
  /** What it is and its name: `table jobs`, `column jobs.token`, `index queue_by_turn`, `trigger jobs_finish`, `function refuse`. */
  readonly object: string
  /** The table it belongs to; functions belong to none. */
  readonly table: string | null
  readonly definition: string
}

/**
 * Settings of storage are left out: an operator tunes them. So are NOT NULL constraints, which newer servers keep apart
 * and columns tell anyway, and the indexes behind constraints.
 */
const parts = `
SELECT 'table ' || relname AS object, relname AS table, '' AS definition
FROM pg_class WHERE relnamespace = $1 AND relkind IN ('r', 'p')
UNION ALL
SELECT 'column ' || relname || '.' || attname, relname,
  concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, pg_get_expr(adbin, adrelid),
    (SELECT collname FROM pg_collation WHERE pg_collation.oid = attcollation))
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = $1 AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'constraint ' || relname || '.' || conname, relname, pg_get_constraintdef(pg_constraint.oid) || convalidated
FROM pg_class JOIN pg_constraint ON conrelid = pg_class.oid
WHERE relnamespace = $1 AND contype NOT IN ('n', 't')
UNION ALL
SELECT 'index ' || named.relname, owner.relname, pg_get_indexdef(indexrelid) || indisvalid
FROM pg_index JOIN pg_class AS owner ON owner.oid = indrelid JOIN pg_class AS named ON named.oid = indexrelid
WHERE owner.relnamespace = $1 AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
UNION ALL
SELECT 'trigger ' || tgname, relname, pg_get_triggerdef(pg_trigger.oid) || CASE tgenabled WHEN 'D' THEN ' DISABLED' ELSE '' END
FROM pg_class JOIN pg_trigger ON tgrelid = pg_class.oid
WHERE relnamespace = $1 AND NOT tgisinternal
UNION ALL
SELECT 'function ' || proname, NULL, pg_get_functiondef(oid)
FROM pg_proc WHERE pronamespace = $1 AND prokind = 'f'
ORDER BY 1
`

/** Where a name stands before that of something in the schema, and not as a word of a comment. */
const qualifier = (names: ReadonlyArray<string>): RegExp =>
  new RegExp(`(?<![\\w"])(?:${names.map((name) => `"${name}"|${name}`).join("|")})\\.(?=[\\w"])`, "g")

/** Reads a schema by the number of its namespace. `names`: plain ones of schemas, which are taken out of the definitions. */
export const readSchema = async (
  client: Pick<ClientBase, "query">,
  namespace: number,
  names: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, SchemaPart>> => {
  const { rows } = await client.query<SchemaPart>(parts, [namespace])
  const named = qualifier(names)
  return new Map(rows.map((part) => [part.object, { ...part, definition: part.definition.replaceAll(named, "") }]))
}
