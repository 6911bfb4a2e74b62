"""Calls a model as often as the quota allows, with the standard library alone.

Nothing in it knows of a quota: only the base URL differs from that of the provider.
"""
import json
import os
import threading
import time
import urllib.error
import urllib.request

BASE_URL = os.environ["OPENAI_BASE_URL"]
tally = {"calls": 0, "retry_after": 0, "error": ""}
lock = threading.Lock()


def call(number):
    body = {"model": "gpt-4.1", "max_tokens": 50, "messages": [{"role": "user", "content": f"Python asks: {number}"}]}
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(BASE_URL + "/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        json.load(response)["choices"][0]["message"]["content"]


def work(worker):
    for number in range(100):
        try:
            call(f"{worker}.{number}")
            with lock:
                tally["calls"] += 1
        except urllib.error.HTTPError as error:
            if error.code == 429 and "Retry-After" not in error.headers:  # of the proxy: no slot is free
                time.sleep(1)
                continue
            with lock:
                if error.code == 429:  # of the proxy: the minute is used up
                    tally["retry_after"] = int(error.headers["Retry-After"])
                else:
                    tally["error"] = f"{error.code}: {error.read().decode()}"
            return


workers = [threading.Thread(target=work, args=[i]) for i in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(json.dumps(tally))
