export { appendEntry, findLastEntry, makeAuditLog } from "./audit.ts"
export { boardOf, listWorkers, makeSwitchboard, type StoredBoard } from "./board.ts"
export {
  assign,
  bytes,
  camel,
  type Column,
  type ColumnOf,
  flag,
  generated,
  integer,
  json,
  type JsonText,
  nullable,
  type RowsOf,
  selectOf,
  real,
  type TablesOf,
  text,
  type ValuesOf,
} from "./column.ts"
export { columns } from "./columns.ts"
export { countDeliveries, makeDeliveryStore } from "./deliveries.ts"
export { listKeys, makeKeyDirectory } from "./keys.ts"
export { listSchedules, makeScheduleStore, writeSchedule } from "./schedules.ts"
export { findSecret, makeSecretStore } from "./secrets.ts"
export { type Answer, Known, type Program, type Sql, type Transactions } from "./Sql.ts"
export {
  type Built,
  compile,
  type Given,
  placeholders,
  Placeholder,
  queries,
  type Parameters,
  type SqlValue,
  type Statement,
  timeName,
} from "./Statement.ts"
export { wholeAge } from "./wholeAge.ts"
