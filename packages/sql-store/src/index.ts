export { appendEntry, makeAuditLog } from "./operatorStores.ts"
export { boardOf, listCaps, makeSwitchboard, type StoredBoard, type StoredCap, writeCap } from "./board.ts"
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
} from "./columns.ts"
export { columns } from "./columns.ts"
export { coldStores, directoryVerbs, jobVerbs, type SqlStore } from "./coldStores.ts"
export { makeDeliveryStore } from "./deliveries.ts"
export { commonChecks } from "./coldStores.ts"
export { dueRetention } from "./dueRetention.ts"
export { chargesAfter, readCharges } from "./history.ts"
export { storedLineage } from "./blobs.ts"
export { makeKeyDirectory } from "./keys.ts"
export { makeScheduleStore, writeSchedule } from "./schedules.ts"
export { type BlobCursor, type BlobPage, namedBlobs } from "./blobs.ts"
export { nextDue, purgesStillDue, recordPurges } from "./blobs.ts"
export { makeSecretStore } from "./operatorStores.ts"
export { type Answer, Known, type Program, type Sql, type Transactions, wholeAge } from "./Sql.ts"
export {
  type AnyBatch,
  type AnyStatement,
  type BatchRow,
  type BatchTable,
  type Built,
  type Fields,
  type ItemOf,
  compile,
  excluded,
  fieldsOf,
  type Compiled,
  type Given,
  once,
  placeholders,
  Placeholder,
  queries,
  type Parameters,
  type Rest,
  type SqlValue,
  plenty,
  plentyName,
  timeName,
} from "./Sql.ts"
export { findUpload, selectUploads, transferVerbs, uploadOf, type UploadRow } from "./uploads.ts"
export { deleteUploads, erasedUploads, expireUploads, findUploadOrphans, unusedUploads } from "./uploadSweeps.ts"
export { announcedUploads, arrivingUploads, keptBytes, storedUploads } from "./uploadSweeps.ts"
export {
  acceptMigrations,
  type AppliedMigration,
  type ComparedMigrations,
  compareMigrations,
  type FoundMigrations,
  isOtherText,
  statusOf,
} from "./compareMigrations.ts"
export { decodeCheckpoints, decodeJob, decodePolled, decodePriority, decodeState } from "./storedJob.ts"
export {
  decodeAmounts,
  decodeBucket,
  decodeJson,
  decodeObject,
  encodeScope,
  listedMetadata,
  UndecodableRow,
} from "./storedJob.ts"
