package redisstore

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// once is a command that the client does not send again by itself: what the second answer says
// would not be so of the first.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// newOnce returns a command whose first key is the word at a place.
func newOnce(ctx context.Context, keyAt int8, words ...any) once {
	command := once{redis.NewCmd(ctx, words...)}
	command.SetFirstKeyPos(keyAt)
	return command
}

// script is a script with its text.
type script struct{ text, hash string }

//go:embed scripts
var scripts embed.FS

// newScript returns the script of some files, one behind the other.
func newScript(names ...string) *script {
	var text []byte
	for _, name := range names {
		part, err := scripts.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // of a file that is not embedded
		}
		text = append(text, part...)
	}
	return &script{string(text), redis.NewScript(string(text)).Hash()}
}

// sender sends a command, and returns its error.
type sender func(context.Context, redis.Cmder) error

// eval runs a script by its hash, and by its text where the server does not know it.
func eval(ctx context.Context, send sender, sc *script, keys []string, args []any) (any, error) {
	call := func(name, what string) (any, error) {
		words := append(make([]any, 0, 3+len(keys)+len(args)), name, what, len(keys))
		for _, key := range keys {
			words = append(words, key)
		}
		command := newOnce(ctx, 3, append(words, args...)...)
		err := send(ctx, command)
		return command.Val(), err
	}
	reply, err := call("evalsha", sc.hash)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return call("eval", sc.text)
	}
	return reply, err
}

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
	if command.Err() == nil && acks < int64(s.options.WaitReplicas) && isDue(&l.reportAt, reportEvery) {
		l.report(fmt.Errorf("redis: %d of %d replicas have the last change in time", acks, s.options.WaitReplicas))
	}
	return command.Err()
}
