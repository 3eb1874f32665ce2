import pytest

from joulie_sim.calibrate.results import GpuResults, ResultError, read_results

SERVER_HEAD = "vendor,cpu_model,cpu_make,chips,tdp_watts_per_chip,memory_gib,idle_watts," + ",".join(
    f"watts_at_{load}pct" for load in range(10, 101, 10)
)
SERVER = '"Maker, Inc.",AMD EPYC 7763,amd,2,280,256,100,190,210,230,250,270,290,310,330,360,400'
GPU_HEAD = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power"
GPU = [
    "squad,bert,12,adam,250,100,220",
    "squad,bert,12,adam,125,150,120",
    "squad,bert,12,adam,200,104,190",
    "squad,bert,24,adam,250,1,2",
]


@pytest.fixture
def file_of(tmp_path):
    def write(*lines, name="file.csv"):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


def test_server_results_are_recognised_by_their_columns(file_of):
    (result,) = read_results(file_of(SERVER_HEAD, SERVER))
    assert (result.vendor, result.cpu_model, result.cpu_vendor) == ("Maker, Inc.", "AMD EPYC 7763", "AMD")
    assert (result.sockets, result.tdp_watts, result.memory_gib) == (2, 280.0, 256.0)
    assert (result.wall_watts[0], result.wall_watts[5], result.wall_watts[-1]) == (100.0, 270.0, 400.0)


def test_a_job_is_free_at_its_highest_limit_and_one_with_a_single_limit_says_nothing(file_of):
    results = read_results(file_of(GPU_HEAD, *GPU, name="v100.csv"))
    assert isinstance(results, GpuResults)
    (job,) = results.jobs
    assert (results.name, job.free.watts, [run.limit_watts for run in job.capped]) == ("v100", 220.0, [200.0, 125.0])


def test_other_columns_and_another_order_are_accepted(file_of):
    lines = [",".join(["note", *reversed(line.split(","))]) for line in (GPU_HEAD, *GPU)]
    assert read_results(file_of(*lines)) == read_results(file_of(GPU_HEAD, *GPU))


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([SERVER_HEAD, SERVER, SERVER.replace("280", "much")], "file.csv:3: column tdp_watts_per_chip: 'much'"),
        ([SERVER_HEAD, SERVER.replace(",100,", ",,")], "file.csv:2: column idle_watts: ''"),
        ([SERVER_HEAD, SERVER.replace(",400", ",inf")], "file.csv:2: column watts_at_100pct: 'inf'"),
        ([SERVER_HEAD, SERVER.replace(",400", ",-400")], "file.csv:2: column watts_at_100pct: '-400'"),
        ([SERVER_HEAD, SERVER.replace(",100,", ",500,")], "file.csv:2: column idle_watts: idle 500 W"),
        ([SERVER_HEAD, SERVER.replace(",2,", ",1.5,")], "file.csv:2: column chips: '1.5'"),
        ([SERVER_HEAD, SERVER.removesuffix(",400")], "file.csv:2: column watts_at_100pct: has 16 values"),
        ([SERVER_HEAD, SERVER + ",1"], "file.csv:2: has 18 values"),
        ([SERVER_HEAD.replace("memory_gib", "memory"), SERVER], "file.csv:1: column memory_gib: is missing"),
        ([SERVER_HEAD + ",chips", SERVER + ",2"], "file.csv:1: column chips: is there twice"),
        ([SERVER_HEAD], "file.csv:1: has no results"),
        ([""], "file.csv:1: has neither the columns of server results"),
        (["sn,cpu_milli", "a,1"], "file.csv:1: has neither the columns of server results"),
        ([GPU_HEAD, GPU[0], GPU[1].replace("150", "0")], "file.csv:3: column time_per_epoch: '0'"),
        ([GPU_HEAD, GPU[0], GPU[1], GPU[0]], "file.csv:4: column power_limit: the job has this limit twice"),
        ([GPU_HEAD, GPU[0]], "file.csv: column power_limit: has no job with two limits"),
        ([SERVER_HEAD, SERVER.replace('c."', 'c."x')], "file.csv:2: "),
    ],
)
def test_an_error_names_file_line_and_column(file_of, lines, place):
    with pytest.raises(ResultError) as caught:
        read_results(file_of(*lines))
    assert place in str(caught.value)


def test_the_line_of_a_row_is_that_of_the_file_after_a_value_with_a_line_break(file_of):
    broken = SERVER.replace("Maker, Inc.", "Maker\nInc.")
    with pytest.raises(ResultError, match=r"file\.csv:4: column chips"):
        read_results(file_of(SERVER_HEAD, broken, SERVER.replace(",2,", ",two,")))


def test_a_file_that_is_absent_or_no_text_is_an_error_with_its_name(tmp_path):
    with pytest.raises(ResultError, match=r"absent\.csv: No such file"):
        read_results(tmp_path / "absent.csv")
    (tmp_path / "binary.csv").write_bytes(b"vendor,\xff\xfe")
    with pytest.raises(ResultError, match=r"binary\.csv: is no UTF-8 text"):
        read_results(tmp_path / "binary.csv")
