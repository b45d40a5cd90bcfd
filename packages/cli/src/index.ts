export type { KilnConfig } from "./KilnConfig.ts"
