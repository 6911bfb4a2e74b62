package redisstore

import (
	"context"
	"crypto/tls"
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

// ask calls f for one step of an operation that changes nothing which anybody sees. Answers that
// pass are asked for again, as long as Options.Timeout lasts.
func ask[T any](ctx context.Context, l *Log, f func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(l.store.options.Timeout)
	var answer error
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		value, err := within(ctx, time.Until(end), l.crew, f)
		err = l.store.told(ctx, err)
		_, passes := isAnswer(err)
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
		if told := s.told(context.WithoutCancel(ctx), err); cause == nil || told != err || !isTimeout(err) {
			cause = told
		}
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

// told returns what is told of a call that failed. It has the client of a Cluster ask for the
// masters anew, in the background: by itself that does so when a master says MOVED, and once a
// minute, but not when a master is gone.
//
// Where there was no answer in time, told tells why the server cannot be connected to: go-redis
// tries that again and again, and then says that the time was over. Whatever says that is
// context.DeadlineExceeded, too. Other errors are as they are.
func (s *Store) told(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	answered, passes := isAnswer(err)
	if cluster, ok := s.client.(*redis.ClusterClient); ok && (!answered || passes) {
		cluster.ReloadState(context.Background())
	}
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
