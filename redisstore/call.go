package redisstore

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// passing are the answers of a server that may be others the next moment.
var passing = []string{"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK", "NOREPLICAS"}

// isAnswer reports whether an error is an answer of the server, and whether it may be another one
// the next moment.
func isAnswer(err error) (is, passes bool) {
	answer, is := errors.AsType[redis.Error](err)
	return is, is && slices.ContainsFunc(passing, func(prefix string) bool { return redis.HasErrorPrefix(answer, prefix) })
}

// try calls f once: on this goroutine, or on one of the crew. passes says that its error is an
// answer that may be another one the next moment.
func try[T any](ctx context.Context, l *Log, most time.Duration, here bool, f func(context.Context) (T, error)) (value T, passes bool, err error) {
	if here {
		ctx, cancel := context.WithTimeout(ctx, most)
		value, err = f(ctx)
		cancel()
	} else {
		value, err = within(ctx, most, l.crew, f)
	}
	if err == nil {
		return value, false, nil
	}
	answered, passes := isAnswer(err)
	if !answered || passes {
		l.store.reroute()
	}
	return value, passes, l.store.explain(ctx, err)
}

// ask calls f for one step of an operation that changes nothing which anybody sees. Answers that
// pass are asked for again, as long as Options.Timeout lasts.
func ask[T any](ctx context.Context, l *Log, f func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(l.store.options.Timeout)
	var answer error
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		value, passes, err := try(ctx, l, time.Until(end), false, f)
		if passes {
			answer = err
		} else if answer != nil && isTimeout(err) { // which tells less
			err = answer
		}
		if !passes || time.Until(end) <= pause || l.sleep(ctx, pause) != nil {
			return value, err
		}
	}
}

// patiently calls f until it succeeds, for Options.OpenTimeout at most, unless it fails for good.
func patiently[T any](ctx context.Context, l *Log, f func(context.Context) (T, error)) (T, error) {
	s := l.store
	ctx, cancel := context.WithTimeout(ctx, s.options.OpenTimeout)
	defer cancel()
	var cause error // the last one that tells something
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		value, err := within(ctx, max(s.options.Timeout, time.Second), l.crew, f)
		if err == nil || isFinal(err) {
			return value, err
		}
		if told := s.explain(context.WithoutCancel(ctx), err); cause == nil || told != err || !isTimeout(err) {
			cause = told
		}
		s.reroute()
		if ended := l.sleep(ctx, pause); ended != nil {
			if !errors.Is(cause, ended) {
				cause = fmt.Errorf("%w: %w", ended, cause)
			}
			return value, cause
		}
	}
}

// isFinal reports whether another try would fail like this one.
func isFinal(err error) bool {
	answered, passes := isAnswer(err)
	_, mistrusts := errors.AsType[*tls.CertificateVerificationError](err)
	return answered && !passes || mistrusts || errors.Is(err, redis.ErrClosed) || errors.Is(err, errClosed)
}

// explainFor is how long it may take to find out why a call had no answer.
const explainFor = 15 * time.Millisecond

// explain returns why there was no answer in time, if the server cannot be connected to: go-redis
// tries that again and again, and then says that the time was over. It returns other errors as they
// are. Whatever says that the time was over is context.DeadlineExceeded, too.
func (s *Store) explain(ctx context.Context, err error) error {
	if !isTimeout(err) {
		return err
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainFor)
	defer cancel()
	if cause := s.settings.dial(ctx); cause != nil && !isTimeout(cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// isTimeout reports whether an error says no more than that there was no answer in time.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// reroute has the client of a Cluster ask for the masters anew, in the background. By itself it
// does so when a master says MOVED, and once a minute, but not when a master is gone.
func (s *Store) reroute() {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
}

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
