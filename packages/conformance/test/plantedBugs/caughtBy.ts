/** What catches a planted bug; the tests assert every word of it. */
export interface CaughtBy {
  /** Checks of the bug's section of the conformance suite that fail: at most the first three. */
  readonly checks: ReadonlyArray<string>
  /** Whether random histories of the store alone break a promise: see `comparison/invariants.ts` and `model/jobChange.ts`. */
  readonly promises: boolean
}

/** By bug. */
export const caughtBy: Readonly<Record<string, CaughtBy>> = {
  "a project's own limit is not applied": {
    checks: ["a project can have a limit of its own, which counts the jobs that it holds already"],
    promises: false,
  },
  "a project's own limit forgets the jobs that it holds": {
    checks: ["a project can have a limit of its own, which counts the jobs that it holds already"],
    promises: false,
  },
  "each project has the whole quota of a kind": {
    checks: ["a kind gets no more jobs than its quota, all its versions together, and other kinds continue"],
    promises: false,
  },
  "a reused key replays another request's job": {
    checks: ["the same key with another request is refused and changes nothing", "holds within one batch"],
    promises: false,
  },
  "idempotency keys are shared by all API keys": {
    checks: ["belongs to the key record: another one may use the same text"],
    promises: false,
  },
  "idempotency is checked first and written later": {
    checks: [
      "a repeat gets the first job, and there is no second",
      "a repeat gets the current state of the job",
      "the same key with another request is refused and changes nothing",
    ],
    promises: true,
  },
  "a rotation ends the old secret at once": {
    checks: ["both secrets find the same record until the overlap ends, then only the new one"],
    promises: false,
  },
  "a rotation revives an ended secret": {
    checks: ["a later rotation never extends a secret, and ends all others"],
    promises: false,
  },
  "a rotation ends the secrets of all keys": {
    checks: ["both secrets find the same record until the overlap ends, then only the new one"],
    promises: false,
  },
  "a revoked key gets a new secret": {
    checks: ["refuses a key that is unknown, revoked or expired, and adds no secret to it"],
    promises: false,
  },
  "the keys of a disabled project still work": {
    checks: ["the keys of a disabled project count as unknown, those of others do not, until it is enabled"],
    promises: false,
  },
  "a secret is replaced without a look at it": {
    checks: ["writes nothing if the secret is not the expected one"],
    promises: false,
  },
  "forced-off switches are ignored": { checks: ["a switch forced off wins over the store's"], promises: false },
  "the price is not kept with the job": {
    checks: ["the price is the one at acceptance, regardless of later changes"],
    promises: false,
  },
  "a worker's published kinds count a millisecond too long": {
    checks: ["a kind is live as long as a worker publishes it, to the millisecond"],
    promises: false,
  },
  "a price may lack a meter of the job's kind": {
    checks: ["a price that lacks a meter of the job's kind counts as missing"],
    promises: false,
  },
  "a worker that stopped is forgotten at once": {
    checks: ["a worker that stopped or crashed still counts for exactly the time that the job's gate allows"],
    promises: false,
  },
  "a worker that stops leaves an old time behind": {
    checks: ["the time a kind was last served outlives the worker, and is exact after a clean shutdown"],
    promises: false,
  },
  "an upload is not consumed": {
    checks: [
      "consumes the upload in the same step",
      "an upload is used once, regardless of its job's state",
      "an upload is used once within one batch",
    ],
    promises: true,
  },
  "another key's upload may be used": {
    checks: ["an unknown upload and those of another project, key or mode are all not found"],
    promises: false,
  },
  "an upload in transfer counts as ready": {
    checks: [
      "before and during the transfer it is not ready, afterwards it is",
      "an upload without a file has expired once no transfer can begin any more",
      "a transfer begun in time is waited for until its lease ends",
    ],
    promises: false,
  },
  "the queue cap admits one job too many": {
    checks: [
      "counts unfinished jobs of the project, this one included",
      "counts within one batch",
      "processing jobs count, finished ones do not",
    ],
    promises: false,
  },
  "finished jobs keep their place in the queue cap": {
    checks: ["processing jobs count, finished ones do not", "every way to finish makes room"],
    promises: false,
  },
  "what a job may cost is not reserved": {
    checks: [
      "a job that could pass the cap is refused, one that reaches it exactly is not",
      "the refusal says whose cap, which period, the maximum cost, and when the period ends",
      "counts by project and by key",
    ],
    promises: false,
  },
  "a reservation outlives its job": {
    checks: [
      "the charge takes the place of the reservation",
      "every way to end without a charge frees the reservation, once",
      "a reservation lasts over retries and lost workers",
    ],
    promises: false,
  },
  "a reservation ends with an attempt": {
    checks: ["a reservation lasts over retries and lost workers"],
    promises: false,
  },
  "what was spent is read before the transaction": {
    checks: [
      "a job that could pass the cap is refused, one that reaches it exactly is not",
      "the refusal says whose cap, which period, the maximum cost, and when the period ends",
      "counts by project and by key",
    ],
    promises: false,
  },
  "what deleted jobs have cost is forgotten": {
    checks: ["erasing and deleting jobs changes nothing about what was spent"],
    promises: false,
  },
  "the store keeps its caller's object": {
    checks: ["keeps a copy: later changes to the caller's request object have no effect"],
    promises: false,
  },
  "a lease is taken over a millisecond early": {
    checks: [
      "returns a queued job with a lease and a token",
      "no other worker gets a claimed job until its lease ends, to the millisecond",
      "`nextInMs` is the next end of a lease or delay among the runnable jobs",
    ],
    promises: true,
  },
  "a lease is taken over a millisecond late": {
    checks: [
      "returns a queued job with a lease and a token",
      "includes the upload",
      "no other worker gets a claimed job until its lease ends, to the millisecond",
    ],
    promises: true,
  },
  "two concurrent workers get the same job": {
    checks: ["concurrent workers get each job exactly once"],
    promises: false,
  },
  "a worker gets jobs of a mode it does not serve": {
    checks: ["claims only jobs that this worker can run"],
    promises: false,
  },
  "a claim asks the worker to wait although more jobs are claimable": {
    checks: ["never claims more than the limit, and reports that there is more"],
    promises: false,
  },
  "a job may lose one worker too many": {
    checks: [
      "the last lost worker a job can afford fails it, in that same step",
      "an abandoned job does not use up the limit",
      "many can be abandoned in one step",
    ],
    promises: false,
  },
  "a job that kills its workers is claimed forever": {
    checks: [
      "the last lost worker a job can afford fails it, in that same step",
      "an abandoned job does not use up the limit",
      "many can be abandoned in one step",
    ],
    promises: false,
  },
  "the first project's flood is served first": {
    checks: [
      "one project's flood of 1,000 jobs does not delay another's single job",
      "projects with work take turns, one job each",
      "turns continue across calls of any size",
    ],
    promises: false,
  },
  "a lane saves up the turns it missed": {
    checks: [
      "a project that arrives late gets no turns for the past",
      "neither does a project that was idle and returns",
      "nor one that could not run meanwhile: deferred, or of a kind that no worker ran",
    ],
    promises: false,
  },
  "a worker gets jobs of versions it does not know": {
    checks: [
      "a worker gets the versions it names, and no others",
      "jobs of a version that no worker here runs do not delay the others of their project",
    ],
    promises: false,
  },
  "the versions of a kind share a lane": {
    checks: [
      "a worker gets the versions it names, and no others",
      "jobs of a version that no worker here runs do not delay the others of their project",
      "versions of one kind are separate lanes, and take turns",
    ],
    promises: false,
  },
  "the version is not kept with the job": {
    checks: [
      "a job keeps the version it was accepted with",
      "a worker gets the versions it names, and no others",
      "kinds and versions that look alike are distinguished",
    ],
    promises: false,
  },
  "a limit admits one job too many": {
    checks: [
      "no more jobs of a kind are claimed than its limit allows, in one claim or in several",
      "nor by concurrent claims",
      "a kind without an entry has no limit",
    ],
    promises: true,
  },
  "limits are checked only once, before a claim begins": {
    checks: [
      "no more jobs of a kind are claimed than its limit allows, in one claim or in several",
      "nor by concurrent claims",
      "a kind without an entry has no limit",
    ],
    promises: true,
  },
  "the jobs of lost workers count against limits forever": {
    checks: [
      "a lease that ended makes room, to the millisecond; its job waits like the others",
      "`nextInMs` is no earlier than there can be room, and 0 only where there is room and work",
      "limits apply to claims: no job is stopped, and a lease extended after its end counts again",
    ],
    promises: false,
  },
  "a job counts against limits a millisecond too long": {
    checks: [
      "a lease that ended makes room, to the millisecond; its job waits like the others",
      "`nextInMs` is no earlier than there can be room, and 0 only where there is room and work",
      "limits apply to claims: no job is stopped, and a lease extended after its end counts again",
    ],
    promises: false,
  },
  "sandbox jobs count against the limits of live jobs": {
    checks: ["sandbox and live jobs are limited separately"],
    promises: false,
  },
  "each version of a kind has its own limit": {
    checks: ["the versions of a kind share its limit"],
    promises: true,
  },
  "each kind of a project has its own limit": {
    checks: ["each project has its own limit, for all its kinds together"],
    promises: true,
  },
  "a worker that finds every lane at its limit is told to ask again immediately": {
    checks: [
      "`nextInMs` is no earlier than there can be room, and 0 only where there is room and work",
      "the same holds for projects, which do not wait for each other's limits",
    ],
    promises: false,
  },
  "a lane at its limit is given turns": {
    checks: ["a lane at its limit takes no turn: it is next when there is room"],
    promises: false,
  },
  "sandbox jobs take a worker's slots from live ones": {
    checks: ["each mode fills its own free slots and no others"],
    promises: false,
  },
  "a project gets a slot more than its share": {
    checks: [
      "a project gets its share, and other projects' jobs continue",
      "all kinds of a project share it, and each mode has one",
      "the jobs that the worker reports as held count, jobs that others hold do not",
    ],
    promises: true,
  },
  "a project's share counts turns, not the slots it already holds": {
    checks: [
      "the jobs that the worker reports as held count, jobs that others hold do not",
      "its lane keeps its place: it is next when there is room",
      "`nextInMs` ignores lanes for which only the worker can make room",
    ],
    promises: true,
  },
  "a worker without a slot is told when leases end": {
    checks: ["`nextInMs` ignores lanes for which only the worker can make room"],
    promises: false,
  },
  "the newest job is served first": {
    checks: [
      "within a lane, jobs are claimed in order of creation, then of id",
      "a released job is back at the head of its lane, a deferred one where its delay puts it",
    ],
    promises: false,
  },
  "no fence: any token writes": {
    checks: [
      "extendLeases: needs a claim and its very token",
      "extendLeases: a worker whose job was taken over writes nothing, its successor does",
      "extendLeases: in a batch each item has its own outcome, in order",
    ],
    promises: true,
  },
  "a higher token passes": {
    checks: [
      "extendLeases: needs a claim and its very token",
      "extendLeases: in a batch each item has its own outcome, in order",
      "checkpointJobs: needs a claim and its very token",
    ],
    promises: true,
  },
  "a lost lease still writes the output's files": {
    checks: [
      "completeJobs: needs a claim and its very token",
      "completeJobs: a worker whose job was taken over writes nothing, its successor does",
      "completeJobs: written already after completeJobs ended the claim",
    ],
    promises: true,
  },
  "a repeated end is answered with a lost lease": {
    checks: [
      "completeJobs: written already after completeJobs ended the claim",
      "completeJobs: the same claim twice in one batch",
      "failJobs: written already after failJobs ended the claim",
    ],
    promises: false,
  },
  "a stale worker's completion is taken for a repetition": {
    checks: [
      "completeJobs: written already after completeJobs ended the claim",
      "completeJobs: a worker whose job was taken over writes nothing after completeJobs of its successor either",
      "failJobs: written already after failJobs ended the claim",
    ],
    promises: false,
  },
  "a stale worker's release is taken for a repetition, so its successor's claim seems released": {
    checks: [
      "deferJobs: needs a claim and its very token",
      "deferJobs: a worker whose job was taken over writes nothing, its successor does",
      "releaseJobs: needs a claim and its very token",
    ],
    promises: false,
  },
  "a failure with another code is taken for a repetition": {
    checks: [
      "failJobs: not after the job expired or was abandoned",
      "failJobs: a repeat has the same code; another code is another end",
    ],
    promises: false,
  },
  "a repeated completion writes a second charge": {
    checks: [
      "completeJobs: the first completion stands, even if a repetition differs",
      "completeJobs: twice in one batch, the first is written",
    ],
    promises: true,
  },
  "a repeated completion brings erased data back": {
    checks: ["completeJobs: erased data is not restored, and the outcome stays the same"],
    promises: true,
  },
  "a repeated deferral counts as another failure": {
    checks: [
      "deferJobs: written already after deferJobs ended the claim",
      "deferJobs: written already after releaseJobs ended the claim",
      "deferJobs: the same claim twice in one batch",
    ],
    promises: true,
  },
  "a live job completes without a charge": {
    checks: ["a live job without a charge is a defect, and so is a sandbox job with one; nothing is written"],
    promises: true,
  },
  "the warning is lost": {
    checks: ["commits output, files and warning with the end of the job", "keeps each warning"],
    promises: false,
  },
  "a checkpoint replaces those before it": {
    checks: [
      "keeps finished steps for the next attempt: after a release, a deferral, a lost worker",
      "a step may be kept again, and several in one batch",
    ],
    promises: true,
  },
  "checkpoints outlive their job": { checks: ["every end of the job clears them"], promises: true },
  "a released job goes to the end of its lane": {
    checks: ["returns the job to the queue immediately, without using a budget"],
    promises: true,
  },
  "every deferral counts as a failure": { checks: ["counts as a failure only if requested"], promises: false },
  "past the run limit a heartbeat is granted a negative lease": {
    checks: ["past the run limit, no lease is granted, and the job stays overdue"],
    promises: false,
  },
  "queued jobs are never overdue": {
    checks: [
      "fails a queued job at its queue limit, to the millisecond",
      "sweeps every kind and mode, gated ones included, the longest overdue first, up to the limit",
      "two concurrent sweeps fail each job once",
    ],
    promises: false,
  },
  "a charge has the time of its transaction, even if that time was already exported": {
    checks: [
      "a charge never gets a time before an `until` that was returned, not even in the same millisecond",
      "an export up to its first `until` misses no earlier charge and includes no later one",
      "neither a repeated completion nor one of a lost claim adds an entry",
    ],
    promises: true,
  },
  "an export claims to be complete up to the requested end": {
    checks: [
      "reports how far it is complete: up to `to`, or up to now and the last committed charge",
      "a charge never gets a time before an `until` that was returned, not even in the same millisecond",
      "an export up to its first `until` misses no earlier charge and includes no later one",
    ],
    promises: true,
  },
  "a claimed job fails for waiting": {
    checks: [
      "a running job is not overdue; one whose worker vanished returns to the queue and waits from then on",
      "a job that returned to the queue is claimed next in its lane, and its former worker writes nothing",
      "after a clock jump of a day, no claimed job fails: its worker continues, or another claims it",
    ],
    promises: true,
  },
  "the sweep expires the newest job first": {
    checks: ["sweeps every kind and mode, gated ones included, the longest overdue first, up to the limit"],
    promises: false,
  },
  "a job is found by its id alone": {
    checks: ["shows a job only to the project, key and mode that created it"],
    promises: false,
  },
  "a poll shows a job to any key": {
    checks: ["shows a job only to the project, key and mode that created it"],
    promises: false,
  },
  "any key may erase a job": {
    checks: [
      "a job of another key, project or mode is not found, like one that never existed",
      "an unfinished job of another owner is not found either",
    ],
    promises: false,
  },
  "a running job's data can be deleted": {
    checks: [
      "an unfinished job stays as it is: queued, held, deferred",
      "in a batch each item has its own outcome, in order",
    ],
    promises: true,
  },
  "a deletion leaves the request": {
    checks: [
      "blanks all retained data immediately, and leaves the rest of the record unchanged",
      "erasing again changes nothing",
      "keeps the charge",
    ],
    promises: true,
  },
  "a deletion leaves the uploaded file": {
    checks: ["blanks all retained data immediately, and leaves the rest of the record unchanged"],
    promises: false,
  },
  "the purge is not recorded: a crash in between leaves the blobs": {
    checks: [
      "returns the blobs to be purged, including its upload's, until the purge is confirmed",
      "expired data that is erased on request counts as deleted from then on",
    ],
    promises: false,
  },
  "the upload's blob is not purged": {
    checks: [
      "returns the blobs to be purged, including its upload's, until the purge is confirmed",
      "expired data that is erased on request counts as deleted from then on",
    ],
    promises: false,
  },
  "data is erased a millisecond late": {
    checks: [
      "erases what finished long enough ago, to the millisecond, and leaves the record",
      "the oldest first, up to the limit; failed jobs too",
      "data_expired is stronger than the job's own warning",
    ],
    promises: false,
  },
  "data ages from the job's creation, not from its end": {
    checks: ["the age of data counts from the job's end, however long the job waited and ran"],
    promises: false,
  },
  "a record ages from the job's creation, not from its end": {
    checks: ["a record's age counts from the job's end, however long the job waited and ran"],
    promises: false,
  },
  "the retention of one kind applies to all": {
    checks: [
      "each kind has its own age, to the millisecond; a kind that is not named has the age of all others",
      "an infinite age keeps a kind's jobs, and one for all others keeps every kind that is not named",
      "jobs of a kind that is kept longer do not use up the limit",
    ],
    promises: false,
  },
  "a deleted job's upload stays": {
    checks: ["removes records of jobs finished long enough ago, to the millisecond, with all their data"],
    promises: false,
  },
  "a deleted job's blobs are not purged": {
    checks: ["removes records of jobs finished long enough ago, to the millisecond, with all their data"],
    promises: false,
  },
  "collection removes what a live attempt may still commit": {
    checks: ["of an unfinished job, those of earlier tokens are spent and those of later ones ahead"],
    promises: false,
  },
  "a stale attempt's blob is never collected": {
    checks: ["of an unfinished job, those of earlier tokens are spent and those of later ones ahead"],
    promises: false,
  },
  "collection removes committed files": {
    checks: ["of a finished job, all blobs that no file names"],
    promises: false,
  },
  "a blob that is newer than its record is taken for a spent one": {
    checks: [
      "of an unfinished job, those of earlier tokens are spent and those of later ones ahead",
      "of a finished job, all blobs that no file names",
    ],
    promises: false,
  },
  "a blob without a record is taken for a spent one": {
    checks: ["all blobs of a failed job are spent, all of a job without a record are unknown"],
    promises: false,
  },
  "a lineage is written regardless of the version that was read": {
    checks: [
      "a text is replaced only where its version is the one that was read",
      "of several concurrent writers, one succeeds",
    ],
    promises: false,
  },
  "a transfer that lost its claim still commits": {
    checks: [
      "extendUpload: needs a running transfer and its very token",
      "extendUpload: a transfer that was taken over writes nothing, its successor does",
      "extendUpload: a transfer that was given up writes nothing once another has begun",
    ],
    promises: false,
  },
  "a transfer commits into an erased upload": {
    checks: [
      "extendUpload: not after the upload was erased or its record removed",
      "completeUpload: not after the upload was erased or its record removed",
      "releaseUpload: not after the upload was erased or its record removed",
    ],
    promises: false,
  },
  "a repeated end of a transfer is answered with a lost lease": {
    checks: [
      "completeUpload: written already after completeUpload",
      "releaseUpload: written already after releaseUpload",
      "of several concurrent completions one is written, and all with the same blob get `Written`",
    ],
    promises: false,
  },
  "another blob is taken for a repetition of the received one": {
    checks: [
      "completeUpload: a transfer that was taken over writes nothing after completeUpload of its successor either",
      "completeUpload: written already after completeUpload",
      "a completion with another blob is not a repeat",
    ],
    promises: false,
  },
  "releasing a completed transfer is taken for a repetition, so its blob is removed": {
    checks: ["releaseUpload: not after completeUpload"],
    promises: false,
  },
  "a transfer that was taken over is taken for a released one": {
    checks: [
      "releaseUpload: needs a running transfer and its very token",
      "releaseUpload: a transfer that was taken over writes nothing after releaseUpload of its successor either",
      "releaseUpload: written already after releaseUpload",
    ],
    promises: false,
  },
  "a transfer begins although none is allowed": {
    checks: ["with none allowed, none begins, and the reason is reported: running, to the millisecond, or completed"],
    promises: false,
  },
  "transfers are not counted": {
    checks: [
      "begins a transfer under a lease and a token",
      "one runs at a time, until its lease ends, to the millisecond",
      "of many concurrent transfers, one begins",
    ],
    promises: false,
  },
  "two transfers may begin at once: checked first, written later": {
    checks: ["of many concurrent transfers, one begins"],
    promises: false,
  },
  "an upload of an unfinished job is erased by age": {
    checks: ["never erases an upload that a job uses, queued, running or done"],
    promises: false,
  },
  "an upload's record is deleted while its job exists": {
    checks: ["never removes an upload that a job refers to"],
    promises: false,
  },
  "collection removes what a transfer may still commit": {
    checks: ["returns all blobs except the file and blobs that the running transfer may still commit"],
    promises: false,
  },
  "revoking a key again changes its time": { checks: ["revokes at store time, once and permanently"], promises: false },
  "a late update sets `last used` back": {
    checks: ["records when keys were last used, and never goes back"],
    promises: false,
  },
  "a first key is created although one exists": {
    checks: [
      "creates project and key in an empty directory, once",
      "does nothing if any key exists, even a revoked one",
    ],
    promises: false,
  },
  "two projects get the same name": { checks: ["a name belongs to one project"], promises: false },
  "a new version of an active price is inactive": {
    checks: ["an active price stays active with its new version, an inactive one stays inactive"],
    promises: false,
  },
  "activation takes the first version": {
    checks: [
      "an active price stays active with its new version, an inactive one stays inactive",
      "can be deactivated, and activated again with the latest version",
    ],
    promises: false,
  },
  "the last candidate replaces the stored secret": {
    checks: [
      "the first candidate becomes the secret, every later one is ignored",
      "all concurrent callers get the same one",
      "keeps a copy of all bytes",
    ],
    promises: false,
  },
  "priorities are ignored": {
    checks: [
      "is kept with the job",
      "the highest first, then the oldest, then by id",
      "over several claims too, of one job each, while other jobs arrive",
    ],
    promises: false,
  },
  "the least urgent job is served first": {
    checks: [
      "is kept with the job",
      "the highest first, then the oldest, then by id",
      "over several claims too, of one job each, while other jobs arrive",
    ],
    promises: false,
  },
  "the priority is not kept with the job": {
    checks: [
      "is kept with the job",
      "the highest first, then the oldest, then by id",
      "over several claims too, of one job each, while other jobs arrive",
    ],
    promises: false,
  },
  "a delay is ignored": {
    checks: [
      "a delayed job is queued and claimable from its time on, to the millisecond",
      "`nextInMs` is the nearest delay among the jobs that this worker can run",
      "delayed jobs queue behind jobs that already wait",
    ],
    promises: false,
  },
  "the queue limit counts from a delayed job's creation": {
    checks: [
      "a delayed job is queued and claimable from its time on, to the millisecond",
      "the queue limit counts from its start",
    ],
    promises: true,
  },
  "metadata is erased with the data": {
    checks: ["stay when the owner erases the job's data, and when it expires"],
    promises: true,
  },
  "a job that did not fail is retried": {
    checks: ["unknown, waiting, running and done jobs, and jobs without their data, cannot be retried"],
    promises: true,
  },
  "a job without its data is retried": {
    checks: ["unknown, waiting, running and done jobs, and jobs without their data, cannot be retried"],
    promises: true,
  },
  "another key's failed job is retried": {
    checks: ["jobs of another key, project or mode cannot be retried"],
    promises: false,
  },
  "a failed job keeps the upload its retry took over": {
    checks: [
      "the upload goes over to the new job, in the same step",
      "erasing or removing the old job no longer touches the file; the new job's erasure does",
      "an upload can be taken over again only from the job that has it now",
    ],
    promises: true,
  },
  "two retries share one upload": {
    checks: [
      "an upload can be taken over again only from the job that has it now",
      "an upload that was not the failed job's is refused",
      "of many concurrent retries with one idempotency key, one creates the job; with separate keys, one gets the upload",
    ],
    promises: true,
  },
  "a claimed job is not canceled": {
    checks: [
      "fails a job that a worker holds, and that worker can write nothing more",
      "fails a job that waits for its next attempt, and one whose worker is lost",
      "makes room: in the queue, and under the limits of concurrency",
    ],
    promises: false,
  },
  "a canceled job keeps its deadline": {
    checks: [
      "fails a queued job, which can no longer be claimed or expire",
      "fails a job that a worker holds, and that worker can write nothing more",
      "fails a job that waits for its next attempt, and one whose worker is lost",
    ],
    promises: true,
  },
  "a second cancellation cancels again": {
    checks: [
      "reports finished and unknown jobs as such, and changes neither",
      "a repeat reports it as finished, in one batch or in two",
      "of many concurrent cancellations one succeeds, and so does one of a cancellation and a completion",
    ],
    promises: false,
  },
  "any token is accepted as the claim's": {
    checks: [
      "true for a claim with its own token, in order, and nothing changes",
      "a claim whose lease has ended holds until another worker takes over",
    ],
    promises: false,
  },
  "a page begins with the last job of the page before": {
    checks: [
      "the newest first, of one instant by id, highest first",
      "shows each job without the caller's data",
      "by age, to the millisecond: from inclusive, to exclusive",
    ],
    promises: false,
  },
  "jobs created at the same time are lost between two pages": {
    checks: [
      "the newest first, of one instant by id, highest first",
      "no page exceeds its limit, and the last one is marked as the last",
      "pages through all jobs without gaps or duplicates while others are added, moved and finished",
    ],
    promises: false,
  },
  "a time filter includes a millisecond too much": {
    checks: [
      "by age, to the millisecond: from inclusive, to exclusive",
      "by filters together: everything that is given must hold, also over several pages",
    ],
    promises: false,
  },
  "delayed jobs count as waiting": {
    checks: ["by kind, mode and status, in all projects or in one", "a delayed job is delayed until exactly its time"],
    promises: false,
  },
  "finished jobs are counted forever": {
    checks: ["finished jobs of the requested period, and unfinished ones of any age"],
    promises: false,
  },
  "the age of a job in the queue counts from its creation": {
    checks: ["a delayed job is ready from exactly its time, and its age counts from there"],
    promises: false,
  },
  "more jobs of the queue are counted than asked for": {
    checks: ["counts at most as many jobs as asked for, and still knows the oldest"],
    promises: false,
  },
  "a first call of onFinished counts as a repeated one": {
    checks: ["counts deliveries by kind, those that were called again, and since when the first is due"],
    promises: false,
  },
  "a delivery that a process is making counts as due": {
    checks: ["counts deliveries by kind, those that were called again, and since when the first is due"],
    promises: false,
  },
  "resuming one kind resumes all": {
    checks: [
      "pauses and resumes each kind separately, listed by name",
      "pausing twice has no further effect, and a kind that was never paused can be resumed",
    ],
    promises: false,
  },
  "the upload cap admits one upload too many": {
    checks: [
      "announced, arriving and stored uploads of a project count together against the cap",
      "earlier uploads of a batch count for later ones, and a refused one does not affect the others",
      "of many concurrent uploads, only as many as the cap allows are created",
    ],
    promises: false,
  },
  "bytes that wait are counted when a transfer begins, and not when it ends": {
    checks: [
      "a file that would exceed the cap of bytes is not stored, and its transfer can be released",
      "of many concurrent transfers, no more bytes are stored than the cap allows",
    ],
    promises: false,
  },
  "one project's uploads fill another's cap": {
    checks: [
      "announced, arriving and stored uploads of a project count together against the cap",
      "a transfer that would exceed the cap of bytes does not begin, to the byte",
    ],
    promises: false,
  },
  "a page of schedules begins with the last one of the page before": {
    checks: ["lists by name; the next ones by time, without paused ones"],
    promises: false,
  },
  "a job does not take its scope": {
    checks: [
      "a second job of the scope is the first one until that has finished, whatever it asks for",
      "until it is claimed",
      "for a time from its creation, finished or not",
    ],
    promises: false,
  },
  "a retry leaves the scope to the failed job": {
    checks: ["a retry takes over the scope of the failed job"],
    promises: false,
  },
  "a running job no longer has its scope": {
    checks: ["a second job of the scope is the first one until that has finished, whatever it asks for"],
    promises: false,
  },
  "a job needs only one of several labels": {
    checks: [
      "lists the jobs that have all labels, newest first, in pages of any size",
      "tells metadata by name, value and type, and from tags",
      "counts them by status",
    ],
    promises: false,
  },
}
