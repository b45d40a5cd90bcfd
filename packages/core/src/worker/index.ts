export { Worker, type WorkerNeeds } from "./Worker.ts"
export { collectOrphans, expireOverdue, layerSweeps, pruneOnce } from "./Sweeper.ts"
