package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// workerArg is the first argument of a process that is a worker.
const workerArg = "worker"

// job is the task of a worker, passed as its arguments.
type job struct {
	worker int // its number
	db     string
	call   time.Duration // how long a call takes, more or less
}

func (j job) args() []string {
	return []string{workerArg, strconv.Itoa(j.worker), j.db, j.call.String()}
}

// parseJob reads the arguments after the first.
func parseJob(args []string) (j job, err error) {
	if len(args) != 3 {
		return job{}, errors.New("parse job: want a number, a database and the length of a call")
	}
	j.db = args[1]
	if j.worker, err = strconv.Atoi(args[0]); err != nil {
		return job{}, fmt.Errorf("parse job: %w", err)
	}
	if j.call, err = time.ParseDuration(args[2]); err != nil {
		return job{}, fmt.Errorf("parse job: %w", err)
	}
	return j, nil
}
