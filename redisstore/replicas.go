package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// reportEvery is how often a log reports that too few replicas have what it wrote.
const reportEvery = time.Second

// eval runs a script. Where it is one that writes events and Options.WaitReplicas asks for that, it
// waits for the replicas. Too few of them are reported.
func (l *Log) eval(ctx context.Context, q *request, args []any) (any, error) {
	keys := l.keys
	if q.facts != nil {
		keys = keys[:commonKeys]
	}
	if l.store.options.WaitReplicas == 0 || q.script != appendScript {
		return q.script.Run(ctx, l.store.client, keys, args...).Result()
	}
	raw, acks, err := l.store.evalAndWait(ctx, q.script, keys, args)
	if want := int64(l.store.options.WaitReplicas); err == nil && acks < want && l.options.Report != nil {
		now := l.since(time.Now())
		if at := l.reportAt.Load(); now >= at && l.reportAt.CompareAndSwap(at, now+int64(reportEvery)) {
			l.options.Report(fmt.Errorf("redis: %d of %d replicas have the last change in time", acks, want))
		}
	}
	return raw, err
}

// evalAndWait runs a script and WAIT, on one connection: WAIT speaks of the writes of its own. It
// returns how many replicas have them. A quarter of Options.Timeout has to do for that.
func (s *Store) evalAndWait(ctx context.Context, script *redis.Script, keys []string, args []any) (raw any, acks int64, err error) {
	node := redis.Cmdable(s.client)
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		if node, err = cluster.MasterForKey(ctx, keys[keyLog]); err != nil {
			return nil, 0, err
		}
	}
	most := max(s.options.Timeout/4, time.Millisecond).Milliseconds()
	run := func(eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) {
		pipe := node.Pipeline()
		reply := eval(ctx, pipe, keys, args...)
		wait := pipe.Do(ctx, "wait", s.options.WaitReplicas, most)
		pipe.Exec(ctx) // each of the two has its own error
		acks, _ = wait.Int64()
		raw, err = reply.Result()
	}
	if run(script.EvalSha); errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT") {
		run(script.Eval)
	}
	return raw, acks, err
}
