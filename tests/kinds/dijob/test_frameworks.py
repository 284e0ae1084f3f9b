"""What frameworks find in the pods of a DIJob: their place in the job, and host files."""

from tests.kinds.dijob.cases import DIJobCluster, make_job, task


def place(cluster: DIJobCluster, pod: str) -> tuple[str, str, str]:
    env = cluster.env(pod)
    return env["SHOAL_ROLE"], env["SHOAL_INDEX"], env["SHOAL_RESTART"]


def test_workers_of_the_template_form_are_data_parallel() -> None:
    cluster = DIJobCluster(make_job(preemptible=True, minReplicas=1, maxReplicas=4))
    cluster.status["allocation"] = ["n", "n"]
    cluster.run_all()
    assert place(cluster, "job-0-1") == ("worker", "1", "0")
    env = cluster.env("job-0-1")
    assert (env["PET_NNODES"], env["MASTER_ADDR"]) == ("1:4", "job-0.di-job.default.svc.cluster.local")
    assert "WORLD_SIZE" not in env


def test_of_tasks_only_learners_are_data_parallel() -> None:
    cluster = DIJobCluster(make_job(tasks=[task("collector", 2), task("learner", 2)]))
    cluster.run_all()
    assert place(cluster, "job-collector-1") == ("collector", "1", "0")
    assert not {"WORLD_SIZE", "MASTER_ADDR", "PET_NNODES"} & cluster.env("job-collector-1").keys()
    env = cluster.env("job-learner-1")
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == (
        "1",
        "2",
        "job-learner-0.di-job.default.svc.cluster.local",
    )


def test_a_recreated_rank_knows_how_often() -> None:
    cluster = DIJobCluster(make_job(minReplicas=2, backoffLimit=9))
    cluster.run_all()
    for generation in (1, 2):
        cluster.end(f"job-{generation - 1}-1" if generation > 1 else "job-0-1", 1)
        cluster.settle()
        cluster.now += 60
        cluster.run_all()
        assert place(cluster, f"job-{generation}-1") == ("worker", "1", str(generation))
    assert place(cluster, "job-0-0") == ("worker", "0", "0")


def test_the_host_files_follow_the_size() -> None:
    cluster = DIJobCluster(make_job(minReplicas=2))
    cluster.run_all()
    assert cluster.host_files == {"hosts.worker": ["job-0", "job-1"]}
    cluster.status["replicas"] = 3
    cluster.settle()
    assert cluster.host_files == {"hosts.worker": ["job-0", "job-1", "job-2"]}
    cluster.status["replicas"] = 1
    cluster.settle()
    assert cluster.host_files == {"hosts.worker": ["job-0"]}
    (volume,) = cluster.pods["job-0-0"]["spec"]["volumes"]
    assert cluster.config_map
    assert volume["projected"]["sources"] == [{"configMap": {"name": cluster.config_map["metadata"]["name"]}}]
    cluster.finish()
    cluster.end("job-0-0")
    cluster.settle()
    assert (cluster.phase, cluster.host_files) == ("Succeeded", {})


def test_each_task_has_a_host_file() -> None:
    cluster = DIJobCluster(make_job(tasks=[task("learner"), task("collector", 2)]))
    cluster.run_all()
    assert cluster.host_files == {
        "hosts.learner": ["job-learner-0"],
        "hosts.collector": ["job-collector-0", "job-collector-1"],
    }
