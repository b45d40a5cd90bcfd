export { type SandboxProviders, sandboxProviders } from "./sandboxProviders.ts"
export { parseSteering, type Steering } from "./Steering.ts"
