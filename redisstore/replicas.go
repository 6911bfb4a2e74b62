package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// reportEvery is how often a log reports that too few replicas have what it wrote.
const reportEvery = time.Second

// sendAndWait sends a command and WAIT on one connection: WAIT speaks of the writes of its own. A
// quarter of Options.Timeout has to do for that. Too few replicas are reported.
func (l *Log) sendAndWait(ctx context.Context, command redis.Cmder) (err error) {
	s := l.store
	node := redis.Cmdable(s.client)
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		if node, err = cluster.MasterForKey(ctx, l.keys[keyLog]); err != nil {
			return err
		}
	}
	pipe := node.Pipeline()
	pipe.Process(ctx, command)
	wait := pipe.Do(ctx, "wait", s.options.WaitReplicas, max(s.options.Timeout/4, time.Millisecond).Milliseconds())
	pipe.Exec(ctx) // each of the two has its own error
	acks, _ := wait.Int64()
	if command.Err() == nil && acks < int64(s.options.WaitReplicas) {
		l.missReplicas(acks)
	}
	return command.Err()
}

// missReplicas reports that fewer replicas than wanted have a change.
func (l *Log) missReplicas(acks int64) {
	now, at := time.Now().UnixNano(), l.reportAt.Load()
	if now >= at && l.reportAt.CompareAndSwap(at, now+int64(reportEvery)) {
		l.report(fmt.Errorf("redis: %d of %d replicas have the last change in time", acks, l.store.options.WaitReplicas))
	}
}
