export { type SandboxProviders, sandboxProviders, parseSteering, type Steering } from "./sandboxProviders.ts"
