export type { SqliteOptions } from "./openDatabase.ts"
export { SqliteStores } from "./SqliteStores.ts"
