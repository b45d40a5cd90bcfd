export * from "./Behavior.ts"
export * from "./Endpoint.ts"
export { replyTo } from "./endpoints/text.ts"
export { transcriptOf } from "./endpoints/transcription.ts"
export {
  badRequest,
  contentPolicyViolation,
  failWith,
  insufficientQuota,
  invalidKey,
  moderationBlocked,
  overloaded,
  rateLimited,
  serverError,
} from "./failures.ts"
export { readJournal } from "./Journal.ts"
export * from "./RecordedCall.ts"
export type { ScriptedBehaviors, UsualBehaviors } from "./Script.ts"
export * from "./spawnOpenAiStandIn.ts"
export * from "./startOpenAiStandIn.ts"
