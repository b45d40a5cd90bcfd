export { copyRecords, countRecords } from "./copyRecords.ts"
export { refuseRetiredBefore, retireSource } from "./retireSource.ts"
