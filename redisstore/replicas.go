package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// reportEvery is how often a log reports that too few replicas have what it wrote.
const reportEvery = time.Second

// evalAndWait runs a script and WAIT, on one connection: WAIT speaks of the writes of its own. A
// quarter of Options.Timeout has to do for that. Too few replicas are reported.
func (l *Log) evalAndWait(ctx context.Context, sc *script, keys []string, args []any) (reply any, err error) {
	s := l.store
	node := redis.Cmdable(s.client)
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		if node, err = cluster.MasterForKey(ctx, keys[0]); err != nil {
			return nil, err
		}
	}
	most := max(s.options.Timeout/4, time.Millisecond).Milliseconds()
	send := func(name, what string) (any, int64, error) {
		pipe := node.Pipeline()
		command := newOnce(ctx, name, what, keys, args)
		pipe.Process(ctx, command)
		wait := pipe.Do(ctx, "wait", s.options.WaitReplicas, most)
		pipe.Exec(ctx) // each of the two has its own error
		acks, _ := wait.Int64()
		reply, err := command.Result()
		return reply, acks, err
	}
	reply, acks, err := send("evalsha", sc.hash)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, acks, err = send("eval", sc.text)
	}
	if err == nil && acks < int64(s.options.WaitReplicas) {
		l.missReplicas(acks)
	}
	return reply, err
}

// missReplicas reports that fewer replicas than wanted have a change.
func (l *Log) missReplicas(acks int64) {
	now, at := time.Now().UnixNano(), l.reportAt.Load()
	if l.options.Report != nil && now >= at && l.reportAt.CompareAndSwap(at, now+int64(reportEvery)) {
		l.options.Report(fmt.Errorf("redis: %d of %d replicas have the last change in time", acks, l.store.options.WaitReplicas))
	}
}
