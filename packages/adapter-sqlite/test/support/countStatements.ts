import { vi } from "@effect/vitest"
import { compiled } from "../../src/Statement.ts"
import { PreparedStatements, storedTime } from "../../src/Transaction.ts"

/** Counts the statements that run: those of verbs that read and write, and others, which begin and end transactions or read store time. */
export const countStatements = () => {
  const prepared = vi.spyOn(PreparedStatements.prototype, "get")
  return {
    /** Returns how many have run since the last call. */
    take: () => {
      const texts = prepared.mock.calls.map(([sql]) => sql)
      prepared.mockClear()
      const writes = texts.filter((sql) => /^(insert|update|delete|with)\b/.test(sql)).length
      const reads = texts.filter((sql) => sql.startsWith("select") && sql !== compiled(storedTime).sql).length
      return { reads, writes, others: texts.length - reads - writes }
    },
    end: (): void => prepared.mockRestore(),
  }
}
