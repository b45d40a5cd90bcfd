import { DatabaseSync } from "node:sqlite"

interface SchemaRow {
  readonly type: "table" | "index" | "trigger"
  readonly name: string
  readonly sql: string
}

/** Writes a database as statements that create it in an empty one. The first line says when, so that a test can move its times. */
export const dumpSqlite = (path: string): string => {
  const database = new DatabaseSync(path, { readOnly: true })
  const all = <Row>(sql: string, ...values: ReadonlyArray<string>) => database.prepare(sql).all(...values) as Array<Row>
  const schema = all<SchemaRow>(
    "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
  )
  const created = (isWanted: (type: SchemaRow["type"]) => boolean) =>
    schema.filter(({ type }) => isWanted(type)).map(({ sql }) => `${sql};`)
  const rows = schema.flatMap(({ name, type }) => {
    if (type !== "table") return []
    const columns = all<{ name: string }>("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", name).map(
      (column) => `"${column.name}"`,
    )
    return all<{ line: string }>(
      `SELECT 'INSERT INTO ${name} (${columns.join(", ")}) VALUES (' || ${columns.map((column) => `quote(${column})`).join(" || ', ' || ")} || ');' AS line
       FROM ${name}`,
    ).map(({ line }) => line)
  })
  const sequences = schema.some(({ sql }) => /AUTOINCREMENT/i.test(sql))
    ? all<{ name: string; seq: number }>("SELECT name, seq FROM sqlite_sequence").map(
        ({ name, seq }) => `UPDATE sqlite_sequence SET seq = ${seq} WHERE name = '${name}';`,
      )
    : []
  database.close()
  // Triggers judge changes, not rows that are kept.
  return [
    `-- kept at ${Date.now()}`,
    ...created((type) => type === "table"),
    ...rows,
    ...sequences,
    ...created((type) => type !== "table"),
  ].join("\n")
}
