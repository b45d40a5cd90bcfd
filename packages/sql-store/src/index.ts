export { appendEntry, findLastEntry, makeAuditLog } from "./audit.ts"
export { boardOf, listWorkers, makeSwitchboard, type StoredBoard } from "./board.ts"
export {
  type AnyFlag,
  assign,
  bytes,
  camel,
  type Column,
  type ColumnOf,
  type Flag,
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
export { listAttempts, listWaits } from "./history.ts"
export { chargesAfter, readCharges } from "./ledger.ts"
export { readLineage, readRetention, storedLineage, writeLineage } from "./lineage.ts"
export { listKeys, makeKeyDirectory } from "./keys.ts"
export { makeMinuteHistory, makeOperatorTokens } from "./operatorStores.ts"
export { listSchedules, makeScheduleStore, writeSchedule } from "./schedules.ts"
export { type BlobCursor, type BlobPage, firstBlobs, namedBlobs } from "./namedBlobs.ts"
export { listPurges, nextDue, nextPurges, readDuePurges } from "./purges.ts"
export { findSecret, makeSecretStore } from "./secrets.ts"
export { type Answer, Known, type Program, type Sql, type Transactions } from "./Sql.ts"
export {
  type Built,
  compile,
  type Compiled,
  type Given,
  once,
  placeholders,
  Placeholder,
  queries,
  type Parameters,
  type SqlValue,
  type Statement,
  plenty,
  plentyName,
  timeName,
} from "./Statement.ts"
export { wholeAge } from "./wholeAge.ts"
export { findUpload, selectUploads, transferVerbs, uploadOf, type UploadRow } from "./uploads.ts"
export { announcedUploads, arrivingUploads, keptBytes, storedUploads } from "./uploadCounts.ts"
export { type AppliedMigration, type ComparedMigrations, compareMigrations, isOtherText } from "./compareMigrations.ts"
export {
  decodeAmounts,
  decodeBucket,
  decodeJson,
  decodeLimits,
  decodeLineItems,
  decodeObject,
  decodeScope,
  decodeStandings,
  decodeStrings,
  encodeLimits,
  encodeScope,
  UndecodableRow,
  listedMetadata,
} from "./storedJson.ts"
