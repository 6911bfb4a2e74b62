package redisstore

import (
	"context"
	"errors"
)

// takeOver begins the log with what a log of the layout before has.
func (l *Log) takeOver(context.Context) error {
	return errors.New("the store has a quota of an earlier version of go-ratelimit, which this version does not take over: " +
		"use another prefix, or delete its keys")
}
