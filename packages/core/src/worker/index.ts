export { Worker, type WorkerNeeds } from "./Worker.ts"
export { collectOrphans, expireOverdue, pruneOnce } from "./Sweeper.ts"
