package redisstore

import "sync/atomic"

var St struct{ Commits, Events, Conf, Queued, Turn, TurnTimeout, TurnNs, RunNs, NotHead, RefusedNoNews atomic.Int64 }
