export * from "./audio.ts"
export { createKey, type Key, type NewKey } from "./createKey.ts"
export {
  type Ended,
  KilnProcess,
  type Listening,
  run,
  runJson,
  serve,
  serviceConfig,
  startLimitMs,
  type StartOptions,
  temporaryDirectory,
  until,
} from "./KilnProcess.ts"
