import type { Session } from "./Session.ts"

type Table = { readonly name: string }

/** The tables of a schema, as SQL names them. */
export const tablesOf = (session: Session, schema: string): Promise<ReadonlyArray<Table>> =>
  session.execute<Table>(
    "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'",
    [`"${schema}"`],
  )

/**
 * Gives the roles that may use the uploads the same rights on tables that a migration has added. Processes that run with such a role
 * need them from the commit on: triggers write to these tables, also for processes of the previous version.
 */
export const shareRights = async (session: Session, schema: string, before: ReadonlyArray<Table>): Promise<void> => {
  const known = new Set(before.map(({ name }) => name))
  const added = (await tablesOf(session, schema)).filter(({ name }) => !known.has(name))
  const rights = await session.execute<{ role: string; rights: string }>(
    `SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, string_agg(privilege_type, ', ') AS rights
     FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = to_regclass($1) AND grantee <> relowner GROUP BY grantee`,
    [`"${schema}".uploads`],
  )
  for (const { name } of added)
    for (const { rights: all, role } of rights) await session.execute(`GRANT ${all} ON ${name} TO ${role}`)
}
