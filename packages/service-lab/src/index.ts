export * from "./audio.ts"
export { createKey, type Key, type NewKey } from "./createKey.ts"
export * from "./KilnProcess.ts"
export { serviceConfig } from "./serviceConfig.ts"
